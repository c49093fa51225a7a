// Preloaded into the traced program: patches modules as they are loaded, and writes what selected launches recorded.
#include "record.h"

#include <sanitizer.h>
#include <generated_cuda_meta.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kPieceBytes = size_t(64) << 20;  // above about 2 GiB a copy to the host fails

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

struct Module {
    std::string cubin;  // content, until it has been written
    std::string file;
    std::string kinds;  // numbers of the kinds that were patched
    bool patched = false;
};

struct Pending {
    bool recording = false;
    unsigned long long index = 0, occurrence = 0;
    unsigned long long code_base = 0, code_bytes = 0, block_limit = 0;
    unsigned grid[3] = {}, block[3] = {}, cluster[3] = {};
    int blocks_per_sm = 0, sms = 0;
};

struct State {
    std::recursive_mutex lock;
    std::string folder, patches;
    std::vector<std::pair<unsigned long long, unsigned long long>> launches;
    bool has_regex = false;
    std::regex regex;
    unsigned long long block_limit = ~0ull, waves = 0;
    size_t buffer_bytes = 0, raw_limit = 0, raw_bytes = 0;
    std::map<CUmodule, Module> modules;
    std::set<CUcontext> patched_contexts;
    std::set<std::string> skipped;  // kinds of instructions that are left alone
    std::map<CUcontext, std::pair<Tracker*, size_t>> trackers;
    std::map<std::string, unsigned long long> occurrences;
    std::vector<char> staging;
    Pending pending;
    unsigned long long launched = 0, matched = 0, recorded = 0, in_graphs = 0, cubins = 0;
    unsigned dynamic_shared = 0;
    FILE* log = nullptr;  // the kernel of every launch, a line each
    bool off = false;
};
State* state = nullptr;

void note(const char* file, const char* format, ...) {
    mkdir(state->folder.c_str(), 0755);
    FILE* out = std::fopen((state->folder + "/" + file).c_str(), "a");
    if (out == nullptr) return;
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(out, format, arguments);
    va_end(arguments);
    std::fputc('\n', out);
    std::fclose(out);
}

const char* text_of(SanitizerResult result) {
    const char* text = nullptr;
    sanitizerGetResultString(result, &text);
    return text ? text : "unknown error";
}

bool done(SanitizerResult result, const char* what, const char* file = "errors") {
    if (result == SANITIZER_SUCCESS) return true;
    note(file, "%s: %s", what, text_of(result));
    return false;
}

bool matches(const char* name) {
    if (!state->has_regex) return true;
    if (std::regex_search(name, state->regex)) return true;
    int status = 0;
    char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    const bool found = demangled != nullptr && std::regex_search(demangled, state->regex);
    std::free(demangled);
    return found;
}

std::string readable(const char* name) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    const std::string text = demangled ? demangled : name;
    std::free(demangled);
    return text;
}

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

bool write_all(int file, const char* data, size_t size) {
    while (size) {
        const ssize_t written = write(file, data, size);
        if (written <= 0) return false;
        data += written;
        size -= written;
    }
    return true;
}

bool write_cubin(Module& module) {
    if (!module.file.empty()) return true;
    module.file = "module-" + std::to_string(state->cubins++) + ".cubin";
    const int file = open((state->folder + "/" + module.file).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const bool whole = file >= 0 && write_all(file, module.cubin.data(), module.cubin.size());
    if (file >= 0) close(file);
    if (!whole) note("errors", "the raw records cannot be written: %s", std::strerror(errno));
    module.cubin.clear();
    module.cubin.shrink_to_fit();
    return whole;
}

// Device memory for the records of this context; half as much as long as there is not enough.
std::pair<Tracker*, size_t> tracker_of(CUcontext context) {
    auto found = state->trackers.find(context);
    if (found != state->trackers.end()) return found->second;
    void* memory = nullptr;
    for (size_t bytes = state->buffer_bytes; bytes >= (size_t(1) << 20); bytes /= 2)
        if (sanitizerAlloc(context, &memory, bytes) == SANITIZER_SUCCESS)
            return state->trackers[context] = {static_cast<Tracker*>(memory), bytes};
    note("errors", "no device memory is left for records");
    return {nullptr, 0};
}

template <class Function>
Function driver(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

unsigned long long blocks_of_waves(const Sanitizer_LaunchData* data, Pending& pending) {
    auto occupancy = driver<CUresult (*)(int*, CUfunction, int, size_t)>("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    auto attribute = driver<CUresult (*)(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
    const int threads = data->blockDim_x * data->blockDim_y * data->blockDim_z;
    if (!occupancy || !attribute ||
        occupancy(&pending.blocks_per_sm, data->function, threads, state->dynamic_shared) != CUDA_SUCCESS ||
        attribute(&pending.sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, data->device) != CUDA_SUCCESS) {
        note("errors", "the blocks of a wave cannot be found out");
        return ~0ull;
    }
    return state->waves * pending.blocks_per_sm * pending.sms;
}

bool selected(const char* name, unsigned long long& matched) {
    if (!matches(name)) return false;
    matched = state->matched++;
    if (state->launches.empty()) return true;
    for (const auto& range : state->launches)
        if (range.first <= matched && matched <= range.second) return true;
    return false;
}

void launch_begin(const Sanitizer_LaunchData* data) {
    const unsigned long long index = state->launched++;
    const unsigned long long occurrence = state->occurrences[data->functionName]++;
    if (state->log == nullptr) state->log = std::fopen((state->folder + "/launched").c_str(), "w");
    if (state->log != nullptr) std::fprintf(state->log, "%s\n", data->functionName);
    unsigned long long matched = 0;
    auto found = state->modules.find(data->module);
    Pending& pending = state->pending;
    pending = Pending();
    if (!selected(data->functionName, matched) || found == state->modules.end() || !found->second.patched) {
        if (found != state->modules.end() && found->second.patched)
            sanitizerSetLaunchCallbackData(data->hLaunch, data->function, data->hStream, nullptr);
        return;
    }
    pending.index = index;
    pending.occurrence = occurrence;
    const unsigned grid[3] = {data->gridDim_x, data->gridDim_y, data->gridDim_z};
    const unsigned block[3] = {data->blockDim_x, data->blockDim_y, data->blockDim_z};
    const unsigned cluster[3] = {data->clusterDim_x, data->clusterDim_y, data->clusterDim_z};
    std::copy(grid, grid + 3, pending.grid);
    std::copy(block, block + 3, pending.block);
    std::copy(cluster, cluster + 3, pending.cluster);
    uint64_t base = 0, bytes = 0;
    if (!done(sanitizerGetFunctionPcAndSize(data->module, data->functionName, &base, &bytes), data->functionName,
              "left_out"))
        return;
    const auto memory = tracker_of(data->context);
    if (memory.first == nullptr) return;
    pending.code_base = base;
    pending.code_bytes = bytes;
    pending.block_limit = (unsigned long long)grid[0] * grid[1] * grid[2];
    if (state->waves) pending.block_limit = std::min(pending.block_limit, blocks_of_waves(data, pending));
    pending.block_limit = std::min(pending.block_limit, state->block_limit);
    const char* name = data->functionName;
    Tracker tracker = {};
    tracker.records = reinterpret_cast<char*>(memory.first) + 256;
    tracker.capacity = (memory.second - 256) / 16;
    tracker.code_base = base;
    tracker.code_bytes = bytes;
    tracker.block_limit = pending.block_limit;
    tracker.grid_x = grid[0];
    tracker.grid_y = grid[1];
    tracker.block_x = block[0];
    tracker.block_y = block[1];
    pending.recording =
        done(sanitizerMemcpyHostToDeviceAsync(memory.first, &tracker, sizeof tracker, data->hStream), name, "left_out") &&
        done(sanitizerStreamSynchronize(data->hStream), name, "left_out") &&
        done(sanitizerSetLaunchCallbackData(data->hLaunch, data->function, data->hStream, memory.first), name,
             "left_out");
}

// The records of a launch to a file, in pieces. Returns the bytes written, or -1.
long long write_records(const Sanitizer_LaunchData* data, const Tracker& tracker, const std::string& path,
                        bool& limited) {
    unsigned long long bytes = std::min(tracker.head, tracker.capacity) * 16;
    limited = bytes > state->raw_limit - state->raw_bytes;
    if (limited) return 0;
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool whole = file >= 0;
    state->staging.resize(std::min<unsigned long long>(bytes, kPieceBytes));
    char* source = static_cast<char*>(tracker.records);
    for (unsigned long long at = 0; whole && at < bytes; at += kPieceBytes) {
        const size_t size = std::min<unsigned long long>(kPieceBytes, bytes - at);
        if (!done(sanitizerMemcpyDeviceToHost(state->staging.data(), source + at, size, data->hStream), "copying"))
            return close(file), -1;
        whole = write_all(file, state->staging.data(), size);
    }
    if (!whole) note("errors", "the raw records cannot be written: %s", std::strerror(errno));
    if (file >= 0) close(file);
    state->raw_bytes += bytes;
    return whole ? static_cast<long long>(bytes) : -1;
}

void launch_end(const Sanitizer_LaunchData* data) {
    Pending& pending = state->pending;
    if (!pending.recording) return;
    pending.recording = false;
    Tracker tracker;
    if (!done(sanitizerStreamSynchronize(data->hStream), "waiting for the kernel") ||
        !done(sanitizerMemcpyDeviceToHost(&tracker, tracker_of(data->context).first, sizeof tracker, data->hStream),
              "copying"))
        return;
    Module& module = state->modules[data->module];
    const std::string name = "launch-" + std::to_string(pending.index);
    bool limited = false;
    const long long bytes = write_records(data, tracker, state->folder + "/" + name + ".raw", limited);
    if (bytes < 0 || !write_cubin(module)) return;
    const std::string path = state->folder + "/" + name;
    FILE* out = std::fopen((path + ".part").c_str(), "w");
    if (out == nullptr) return note("errors", "the raw records cannot be written: %s", std::strerror(errno));
    const auto number = [&](const char* key, unsigned long long value) { std::fprintf(out, "%s=%llu\n", key, value); };
    const auto triple = [&](const char* key, const unsigned* values) {
        std::fprintf(out, "%s=%u %u %u\n", key, values[0], values[1], values[2]);
    };
    std::fprintf(out, "kernel=%s\nreadable=%s\nmodule=%s\nkinds=%s\n", data->functionName,
                 readable(data->functionName).c_str(), module.file.c_str(), module.kinds.c_str());
    triple("grid", pending.grid);
    triple("block", pending.block);
    triple("cluster", pending.cluster);
    number("index", pending.index);
    number("occurrence", pending.occurrence);
    number("code_base", pending.code_base);
    number("code_bytes", pending.code_bytes);
    number("block_limit", pending.block_limit);
    number("dynamic_shared_bytes", tracker.dynamic_shared_bytes);
    number("total_shared_bytes", tracker.total_shared_bytes);
    number("dropped", tracker.dropped);
    number("foreign", tracker.foreign);
    number("head_bytes", tracker.head * 16);
    number("capacity_bytes", tracker.capacity * 16);
    number("raw_bytes", bytes);
    number("raw_limited", limited);
    number("blocks_per_sm", pending.blocks_per_sm);
    number("sms", pending.sms);
    std::fclose(out);
    std::rename((path + ".part").c_str(), (path + ".launch").c_str());
    state->recorded++;
    if (state->log != nullptr) std::fflush(state->log);  // what a crash would lose
}

// Kernels of graphs run patched, but without a place for records: nothing says when they are done.
void graph_node(const Sanitizer_GraphNodeLaunchData* data) {
    if (data->nodeType != CU_GRAPH_NODE_TYPE_KERNEL) return;
    state->in_graphs++;
    const Sanitizer_LaunchData& launch = data->launchData;
    sanitizerSetLaunchCallbackData(launch.hLaunch, launch.function, launch.hStream, nullptr);
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
            launch_begin(launch);
        } else if (id == SANITIZER_CBID_LAUNCH_END) {
            launch_end(launch);
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
            state->trackers.erase(context);
            state->patched_contexts.erase(context);
        }
    } else if (domain == SANITIZER_CB_DOMAIN_GRAPHS && id == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN) {
        graph_node(static_cast<const Sanitizer_GraphNodeLaunchData*>(data));
    } else if (domain == SANITIZER_CB_DOMAIN_DRIVER_API) {
        driver_call(id, static_cast<const Sanitizer_CallbackData*>(data));
    }
}

std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

void forked() {
    if (state == nullptr) return;
    // CUDA cannot be used in a child that was forked without exec; what the parent holds is not the child's to write.
    state->off = true;
}

__attribute__((constructor)) void begin() {
    const std::string folder = setting("WARPLENS_TRACE_FOLDER");
    if (folder.empty()) return;
    state = new State;  // never freed: callbacks come until the process is gone
    state->folder = folder + "/process-" + std::to_string(getpid());
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
    if (state == nullptr || state->off || access(state->folder.c_str(), F_OK) != 0) return;
    note("end", "launched=%llu\nmatched=%llu\nrecorded=%llu\nin_graphs=%llu", state->launched, state->matched,
         state->recorded, state->in_graphs);
    if (state->log != nullptr) std::fflush(state->log);
    state->off = true;
}

}  // namespace
