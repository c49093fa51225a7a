// Preloaded into the traced program: patches modules as they are loaded, and writes what selected launches recorded.
#include "chosen.h"
#include "record.h"
#include "state.h"
#include "writing.h"

#include <generated_cuda_meta.h>
#include <sanitizer.h>

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kSlotBytes = 256, kSlots = 4096;
static_assert(sizeof(Tracker) <= kSlotBytes && sizeof(Start) == 512, "trackers are told by their alignment");

struct Kind {
    Sanitizer_InstructionId id;
    const char* function;
};
const Kind kKinds[] = {
    {SANITIZER_INSTRUCTION_BLOCK_ENTER, "warplens_enter"},
    {SANITIZER_INSTRUCTION_BLOCK_EXIT, "warplens_exit"},
    {SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, "warplens_global"},
    {SANITIZER_INSTRUCTION_SHARED_MEMORY_ACCESS, "warplens_shared"},
    {SANITIZER_INSTRUCTION_LOCAL_MEMORY_ACCESS, "warplens_local"},
    {SANITIZER_INSTRUCTION_REMOTE_SHARED_MEMORY_ACCESS, "warplens_remote"},
    {SANITIZER_INSTRUCTION_MEMCPY_ASYNC, "warplens_async_copy"},
    {SANITIZER_INSTRUCTION_MATRIX_MEMORY_ACCESS, "warplens_matrix"},
    {SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED, "warplens_bulk_in"},
    {SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL, "warplens_bulk_out"},
    {SANITIZER_INSTRUCTION_BARRIER, "warplens_barrier"},
    {SANITIZER_INSTRUCTION_SYNCWARP, "warplens_syncwarp"},
    {SANITIZER_INSTRUCTION_SHFL, "warplens_shuffle"},
    {SANITIZER_INSTRUCTION_CALL, "warplens_call"},
    {SANITIZER_INSTRUCTION_RET, "warplens_ret"},
    {SANITIZER_INSTRUCTION_PIPELINE_COMMIT, "warplens_commit"},
    {SANITIZER_INSTRUCTION_PIPELINE_WAIT, "warplens_wait"},
    {SANITIZER_INSTRUCTION_CLUSTER_BARRIER_ARRIVE, "warplens_cluster_arrive"},
    {SANITIZER_INSTRUCTION_CLUSTER_BARRIER_WAIT, "warplens_cluster_wait"},
    {SANITIZER_INSTRUCTION_WARPGROUP_MMA_ASYNC, "warplens_warpgroup_product"},
};

// Whether a cubin has a kernel that is to be recorded: a library's modules stay as fast as they were.
bool any_kernel_matches(const char* data, size_t size) {
    if (!state->has_regex || size < sizeof(Elf64_Ehdr)) return true;
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(data);
    if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shoff + size_t(header->e_shnum) * sizeof(Elf64_Shdr) > size)
        return true;
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(data + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
        const Elf64_Shdr& names = sections[sections[i].sh_link];
        if (sections[i].sh_offset + sections[i].sh_size > size || names.sh_offset + names.sh_size > size) return true;
        const auto* symbols = reinterpret_cast<const Elf64_Sym*>(data + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k)
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && symbols[k].st_name < names.sh_size &&
                matches(data + names.sh_offset + symbols[k].st_name))
                return true;
        return false;
    }
    return true;
}

void module_loaded(const Sanitizer_ResourceModuleData* data) {
    state->used = true;
    mkdir(state->folder.c_str(), 0755);  // not before: shells and compilers that a program starts leave no folder
    Module& module = state->modules[data->module];
    module = Module();
    if (data->pCubin == nullptr || data->cubinSize == 0 || !any_kernel_matches(data->pCubin, data->cubinSize)) return;
    if (state->patched_contexts.insert(data->context).second &&
        !done(sanitizerAddPatchesFromFile(state->patches.c_str(), data->context), "loading the patches"))
        return;
    for (const Kind& kind : kKinds) {
        if (state->skipped.count(kind.function + sizeof "warplens_" - 1)) continue;
        const SanitizerResult result = sanitizerPatchInstructions(kind.id, data->module, kind.function);
        if (result == SANITIZER_SUCCESS)
            module.kinds += std::to_string(int(kind.id)) + " ";
        else
            note("notes", "kind %d cannot be patched: %s", int(kind.id), text_of(result));
    }
    // One module that cannot be patched must not cost the launches of others.
    if (!done(sanitizerPatchModule(data->module), "patching a module", "left_out")) return;
    module.patched = true;
    module.cubin.assign(data->pCubin, data->cubinSize);
}

// Device memory for the records of this context; half as much as long as there is not enough.
std::pair<Start*, size_t> memory_of(CUcontext context) {
    auto found = state->memories.find(context);
    if (found != state->memories.end()) return found->second;
    void* memory = nullptr;
    for (size_t bytes = state->buffer_bytes; bytes >= (size_t(1) << 20); bytes /= 2)
        if (sanitizerAlloc(context, &memory, bytes) == SANITIZER_SUCCESS)
            return state->memories[context] = {static_cast<Start*>(memory), bytes};
    note("errors", "no device memory is left for records");
    return {nullptr, 0};
}

// Memory for the tracker of a graph's next kernel. The host's: nothing can be copied to the device while the graph is
// being launched, and the kernel may begin at any time.
Tracker* next_slot(CUcontext context) {
    std::vector<char*>& blocks = state->slots[context];
    const size_t number = state->slots_used++;
    if (number / kSlots == blocks.size()) {
        void* memory = nullptr;
        if (!done(sanitizerAllocHost(context, &memory, kSlots * kSlotBytes), "memory for the kernels of graphs"))
            return nullptr;
        blocks.push_back(static_cast<char*>(memory));
    }
    return reinterpret_cast<Tracker*>(blocks[number / kSlots] + number % kSlots * kSlotBytes);
}

template <class Function>
Function driver(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

// How many blocks run at once; 0 if that is not known.
unsigned long long blocks_of_wave(const Sanitizer_LaunchData& data, Pending& pending) {
    auto occupancy = driver<CUresult (*)(int*, CUfunction, int, size_t)>("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    auto attribute = driver<CUresult (*)(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
    const int threads = data.blockDim_x * data.blockDim_y * data.blockDim_z;
    if (!occupancy || !attribute ||
        occupancy(&pending.blocks_per_sm, data.function, threads, state->dynamic_shared) != CUDA_SUCCESS ||
        attribute(&pending.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, data.device) != CUDA_SUCCESS) {
        if (state->waves) note("errors", "the blocks of a wave cannot be found out");
        return 0;
    }
    return (unsigned long long)pending.blocks_per_sm * pending.sms;
}

bool selected(const char* name) {
    if (!matches(name)) return false;
    const unsigned long long matched = state->matched++;
    if (state->launches.empty()) return true;
    for (const auto& range : state->launches)
        if (range.first <= matched && matched <= range.second) return true;
    return false;
}

// Counts a kernel. Whether it is to be recorded.
bool count(const Sanitizer_LaunchData& data, Pending& pending) {
    const char* name = data.functionName;
    pending.index = state->launched++;
    pending.occurrence = state->occurrences[name]++;
    if (state->log == nullptr) {
        state->log = std::fopen((state->folder + "/launched").c_str(), "w");
        if (state->log != nullptr) std::setvbuf(state->log, nullptr, _IOLBF, BUFSIZ);  // a crash or fork must not matter
    }
    if (state->log != nullptr) std::fprintf(state->log, "%s\n", name);
    return selected(name);
}

bool is_patched(const Sanitizer_LaunchData& data) {
    const auto found = state->modules.find(data.module);
    return found != state->modules.end() && found->second.patched;
}

// Whether a kernel that is to be recorded can be.
bool can_be_recorded(const Sanitizer_LaunchData& data) {
    if (!is_patched(data)) note("left_out", "%s, which is in no module that could be patched", data.functionName);
    return is_patched(data);
}

// All that the patches of a kernel need to record it in a context's memory, or to leave it out there.
bool prepare(const Sanitizer_LaunchData& data, CUcontext context, bool wanted, Pending& pending) {
    const char* name = data.functionName;
    if (data.context != context) {
        if (wanted) note("left_out", "%s in a CUDA graph, outside the context in which the graph was launched", name);
        return false;
    }
    pending.kernel = name;
    pending.module = data.module;
    const unsigned grid[3] = {data.gridDim_x, data.gridDim_y, data.gridDim_z};
    const unsigned block[3] = {data.blockDim_x, data.blockDim_y, data.blockDim_z};
    const unsigned cluster[3] = {data.clusterDim_x, data.clusterDim_y, data.clusterDim_z};
    std::copy(grid, grid + 3, pending.grid);
    std::copy(block, block + 3, pending.block);
    std::copy(cluster, cluster + 3, pending.cluster);
    uint64_t base = 0, bytes = 0;
    if (!done(sanitizerGetFunctionPcAndSize(data.module, name, &base, &bytes), name, "left_out")) return false;
    const auto memory = memory_of(context);
    if (memory.first == nullptr) return false;
    Tracker& tracker = pending.tracker;
    tracker.head = &memory.first->head;
    tracker.records = memory.first + 1;
    tracker.capacity = (memory.second - sizeof(Start)) / 16;
    tracker.code_base = base;
    tracker.code_bytes = bytes;
    tracker.blocks = (unsigned long long)grid[0] * grid[1] * grid[2];
    tracker.threads = tracker.blocks * block[0] * block[1] * block[2];
    const bool some = wanted && (state->block_limit < tracker.blocks || state->waves);
    const unsigned long long wave = some ? blocks_of_wave(data, pending) : 0;
    const unsigned long long most = wave && state->waves ? state->waves * wave : ~0ull;
    choose_blocks(tracker, wanted ? std::min(state->block_limit, most) : 0, wave, std::max(cluster[0] * cluster[1] * cluster[2], 1u));
    tracker.grid_x = grid[0];
    tracker.grid_y = grid[1];
    tracker.block_x = block[0];
    tracker.block_y = block[1];
    return true;
}

bool set_tracker(const Sanitizer_LaunchData& data, const Tracker* tracker) {
    return done(sanitizerSetLaunchCallbackData(data.hLaunch, data.function, data.hStream, tracker), data.functionName,
                "left_out");
}

void set_no_tracker(const Sanitizer_LaunchData& data) {
    if (is_patched(data)) sanitizerSetLaunchCallbackData(data.hLaunch, data.function, data.hStream, nullptr);
}

// Before anything is recorded: no records yet.
bool write_start(CUcontext context, Sanitizer_StreamHandle stream, const Tracker& tracker, const char* name) {
    Start start = {0, tracker};
    return done(sanitizerMemcpyHostToDeviceAsync(memory_of(context).first, &start, sizeof start, stream), name,
                "left_out") &&
           done(sanitizerStreamSynchronize(stream), name, "left_out");
}

void launch_begin(const Sanitizer_LaunchData& data) {
    if (state->in_graph) return note("left_out", "%s during the launch of a CUDA graph", data.functionName);
    Pending pending;
    state->pending.clear();
    if (!count(data, pending) || !can_be_recorded(data) || !prepare(data, data.context, true, pending))
        return set_no_tracker(data);
    if (write_start(data.context, data.hStream, pending.tracker, data.functionName) &&
        set_tracker(data, &memory_of(data.context).first->tracker))
        state->pending.push_back(pending);
}

void graph_begin(const Sanitizer_GraphLaunchData& data) {
    state->in_graph = true;
    state->pending.clear();
    state->slots_used = 0;
    state->shared.clear();
    state->turns.clear();
    state->dynamic_shared = 0;  // not known: waves have more blocks than fit, if anything
    if (data.isGraphUpload || !state->patched_contexts.count(data.context)) return;
    if (memory_of(data.context).first != nullptr && write_start(data.context, data.hStream, {}, "a CUDA graph"))
        state->graph_context = data.context;
}

// All kernels of a graph may run at the same time. Their records mix, and are told apart by their blocks. Those in one
// stream run one after the other; they all get what is set for the last, so each gets the same. Kernels that are not
// wanted are among them, for turns to be right.
void graph_node(const Sanitizer_GraphNodeLaunchData& node) {
    if (node.nodeType != CU_GRAPH_NODE_TYPE_KERNEL) return;
    const Sanitizer_LaunchData& data = node.launchData;
    if (node.isGraphUpload) return set_no_tracker(data);
    Pending pending;
    bool wanted = count(data, pending);
    if (!(wanted ? can_be_recorded(data) : is_patched(data))) return;
    Tracker* slot = nullptr;
    if (prepare(data, state->graph_context, wanted, pending)) slot = next_slot(data.context);
    if (slot == nullptr) {
        if (!state->shared.count(data.hStream)) set_no_tracker(data);
        return;
    }
    if (wanted && !state->pending.empty()) {
        const Tracker& last = state->pending.back().tracker;
        pending.tracker.first_block = last.first_block + last.block_limit;
    }
    if (pending.tracker.first_block + pending.tracker.block_limit > 1ull << 32) {
        note("left_out", "%s in a CUDA graph of more than 2^32 blocks", data.functionName);
        pending.tracker.block_limit = 0;
        wanted = false;
    }
    *slot = pending.tracker;
    pending.slot = slot;
    Tracker* first = state->shared.emplace(data.hStream, slot).first->second;
    Turns& turns = state->turns[{data.hStream, slot->code_base}];
    join(first, turns, slot);
    pending.turns = &turns;
    if (set_tracker(data, first) && wanted) state->pending.push_back(pending);
}

// Whether every kernel of a graph with this function ran once, and after the one before. Says so where not.
bool ran_in_turn(const std::string& kernel, const Turns& turns) {
    unsigned long long ran = 0;
    bool once = true, overlapped = false;
    for (const Tracker* each : turns) {
        ran += each->executions;
        once = once && each->executions == 1 && each->left == 0;
        overlapped = overlapped || each->overlapped;
    }
    const char* name = kernel.c_str();
    if (turns.size() == 1) {
        if (!once) note("left_out", "%s in a CUDA graph, where it ran %llu times at one launch of the graph", name, ran);
        return once;
    }
    if (!once)  // a conditional node, for one
        note("left_out", "%s in a CUDA graph, where %zu nodes of a branch have it, but it ran %llu times at one launch",
             name, turns.size(), ran);
    else if (overlapped)
        note("left_out", "%s in a CUDA graph, where %zu nodes of a branch have it that may have run together", name,
             turns.size());
    return once && !overlapped;
}

// The end of a launch, or of that of a graph.
void launch_end(CUcontext context, Sanitizer_StreamHandle stream) {
    if (state->pending.empty() && state->slots_used == 0) return;
    state->slots_used = 0;
    if (!done(sanitizerStreamSynchronize(stream), "waiting for the kernel") || state->pending.empty()) return;
    Start start;
    if (!done(sanitizerMemcpyDeviceToHost(&start, memory_of(context).first, sizeof start, stream), "copying"))
        return;
    for (Pending& each : state->pending) each.tracker = each.slot ? *each.slot : start.tracker;
    bool limited = false;
    const auto bytes = write_records(start, stream, limited);
    for (size_t i = 0; i < bytes.size(); ++i) {
        const Pending& each = state->pending[i];
        if (each.tracker.entered > 1)
            note("left_out", "%s, which launched itself: records of both cannot be told apart", each.kernel.c_str());
        else if (each.turns == nullptr || ran_in_turn(each.kernel, *each.turns))
            write_launch(each, start.head, bytes[i], limited);
    }
    state->pending.clear();
}

void graph(Sanitizer_CallbackId id, const void* data) {
    if (id == SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN) {
        state->lock.lock();  // held until the graph has run: records of two launches must not mix
        graph_begin(*static_cast<const Sanitizer_GraphLaunchData*>(data));
    } else if (id == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN) {
        graph_node(*static_cast<const Sanitizer_GraphNodeLaunchData*>(data));
    } else if (id == SANITIZER_CBID_GRAPHS_LAUNCH_END && state->in_graph) {
        const auto* launch = static_cast<const Sanitizer_GraphLaunchData*>(data);
        launch_end(launch->context, launch->hStream);
        state->in_graph = false;
        state->graph_context = nullptr;
        state->lock.unlock();
    } else if (id == SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATED) {
        if (static_cast<const Sanitizer_GraphExecData*>(data)->isDeviceLaunch)
            note("notes", "kernels of CUDA graphs that are launched on the device are not traced");
    }
}

// Dynamic shared memory is not in the launch callback; occupancy needs it before the kernel runs.
void driver_call(Sanitizer_CallbackId id, const Sanitizer_CallbackData* data) {
    if (data->callbackSite != SANITIZER_API_ENTER) return;
    if (id == SANITIZER_CBID_DRIVER_API_cuLaunchKernel || id == SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz ||
        id == SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel)
        state->dynamic_shared = static_cast<const cuLaunchKernel_params*>(data->functionParams)->sharedMemBytes;
    else if (id == SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx || id == SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz)
        state->dynamic_shared =
            static_cast<const cuLaunchKernelEx_params*>(data->functionParams)->config->sharedMemBytes;
}

void SANITIZERAPI callback(void*, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void* data) {
    if (state->off) return;
    if (domain == SANITIZER_CB_DOMAIN_LAUNCH) {
        const auto* launch = static_cast<const Sanitizer_LaunchData*>(data);
        if (id == SANITIZER_CBID_LAUNCH_BEGIN) {
            state->lock.lock();  // held until the launch ends: records of two launches must not mix
            launch_begin(*launch);
        } else if (id == SANITIZER_CBID_LAUNCH_END) {
            if (!state->in_graph) launch_end(launch->context, launch->hStream);
            state->lock.unlock();
        }
        return;
    }
    std::lock_guard<std::recursive_mutex> guard(state->lock);
    if (domain == SANITIZER_CB_DOMAIN_RESOURCE) {
        if (id == SANITIZER_CBID_RESOURCE_MODULE_LOADED)
            module_loaded(static_cast<const Sanitizer_ResourceModuleData*>(data));
        else if (id == SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
            state->modules.erase(static_cast<const Sanitizer_ResourceModuleData*>(data)->module);
        else if (id == SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
            const CUcontext context = static_cast<const Sanitizer_ResourceContextData*>(data)->context;
            state->memories.erase(context);
            state->slots.erase(context);
            state->patched_contexts.erase(context);
        }
    } else if (domain == SANITIZER_CB_DOMAIN_GRAPHS) {
        graph(id, data);
    } else if (domain == SANITIZER_CB_DOMAIN_DRIVER_API) {
        driver_call(id, static_cast<const Sanitizer_CallbackData*>(data));
    }
}

std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::string own_folder() { return setting("WARPLENS_TRACE_FOLDER") + "/process-" + std::to_string(getpid()); }

// In a child that was forked. It can use CUDA if its parent has not; what the parent holds is not the child's to write.
void forked() {
    if (state == nullptr || (state->off = state->used)) return;
    state->folder = own_folder();
}

__attribute__((constructor)) void begin() {
    if (setting("WARPLENS_TRACE_FOLDER").empty()) return;
    state = new State;  // never freed: callbacks come until the process is gone
    state->folder = own_folder();
    state->patches = setting("WARPLENS_TRACE_PATCHES");
    const std::string regex = setting("WARPLENS_TRACE_KERNEL"), launches = setting("WARPLENS_TRACE_LAUNCHES");
    try {
        if (!regex.empty()) state->regex = std::regex(regex, std::regex::ECMAScript | std::regex::optimize);
        state->has_regex = !regex.empty();
    } catch (const std::regex_error& error) {
        return note("errors", "the kernel's name is no regular expression: %s", error.what());
    }
    for (const char* at = launches.c_str(); *at;) {
        char* end = nullptr;
        const unsigned long long first = std::strtoull(at, &end, 10);
        const unsigned long long last = *end == '-' ? std::strtoull(end + 1, &end, 10) : first;
        state->launches.emplace_back(first, last);
        at = *end == ',' ? end + 1 : end + std::strlen(end);
    }
    const auto size = [](const char* name, unsigned long long otherwise) {
        const std::string text = setting(name);
        return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
    };
    std::string skipped = setting("WARPLENS_TRACE_SKIP");
    for (char* at = std::strtok(skipped.data(), ","); at != nullptr; at = std::strtok(nullptr, ","))
        state->skipped.insert(at);
    state->block_limit = size("WARPLENS_TRACE_BLOCKS", ~0ull);
    state->waves = size("WARPLENS_TRACE_WAVES", 0);
    state->buffer_bytes = size("WARPLENS_TRACE_BUFFER_BYTES", 4ull << 30);
    state->raw_limit = size("WARPLENS_TRACE_RAW_LIMIT", 64ull << 30);
    pthread_atfork(nullptr, nullptr, forked);
    Sanitizer_SubscriberHandle handle;
    // Programs start others that use no GPU: not to get going there is no error yet.
    const auto started = [](SanitizerResult result) { return done(result, "Compute Sanitizer", "starts"); };
    if (!started(sanitizerSubscribe(&handle, callback, nullptr))) return;
    started(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_RESOURCE));
    started(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_LAUNCH));
    started(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_GRAPHS));
    if (state->waves) started(sanitizerEnableDomain(1, handle, SANITIZER_CB_DOMAIN_DRIVER_API));
}

__attribute__((destructor)) void end() {
    if (state != nullptr) state->off = true;
}

}  // namespace
