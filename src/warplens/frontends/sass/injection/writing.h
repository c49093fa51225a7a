// Files with what kernels recorded. A part of tracer.cpp, as state.h is.
#pragma once
#include "parting.h"
#include "state.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

constexpr size_t kPieceBytes = size_t(64) << 20;  // above about 2 GiB a copy to the host fails

bool write_cubin(Module& module) {
    if (!module.file.empty()) return true;
    module.file = "module-" + std::to_string(state->cubins++) + ".cubin";
    const std::string path = state->folder + "/" + module.file;
    const bool whole = write_whole(path, "wb", module.cubin.data(), module.cubin.size());
    if (!whole) note("errors", "the raw records cannot be written: %s", std::strerror(errno));
    module.cubin.clear();
    module.cubin.shrink_to_fit();
    return whole;
}

// The records of all pending kernels to their files, in pieces. Returns the bytes of each, or nothing if that failed.
std::vector<unsigned long long> write_records(const Start& start, Sanitizer_StreamHandle stream, bool& limited) {
    const Tracker& any = state->pending[0].tracker;
    const unsigned long long bytes = std::min(start.head, any.capacity) * 16;
    limited = bytes > state->raw_limit - state->raw_bytes;
    if (limited) return std::vector<unsigned long long>(state->pending.size(), 0);
    Parting parting;
    for (const Pending& each : state->pending)
        parting.add(each.tracker.first_block, state->folder + "/launch-" + std::to_string(each.index) + ".raw");
    state->staging.resize(std::min<unsigned long long>(bytes, kPieceBytes));
    errno = 0;
    bool whole = true;
    for (unsigned long long at = 0; whole && at < bytes; at += kPieceBytes) {
        const size_t size = std::min<unsigned long long>(kPieceBytes, bytes - at);
        char* source = static_cast<char*>(any.records) + at;
        if (!done(sanitizerMemcpyDeviceToHost(state->staging.data(), source, size, stream), "copying")) return {};
        whole = parting.take(state->staging.data(), size);
    }
    whole = parting.end() && whole;
    if (!whole) note("errors", "the raw records cannot be written: %s", errno ? std::strerror(errno) : "damaged");
    state->raw_bytes += bytes;
    return whole ? parting.bytes() : std::vector<unsigned long long>();
}

void write_launch(const Pending& pending, unsigned long long head, unsigned long long bytes, bool limited) {
    const Tracker& tracker = pending.tracker;
    Module& module = state->modules[pending.module];
    if (!write_cubin(module)) return;
    const std::string path = state->folder + "/launch-" + std::to_string(pending.index);
    FILE* out = std::fopen((path + ".part").c_str(), "w");
    if (out == nullptr) return note("errors", "the raw records cannot be written: %s", std::strerror(errno));
    const auto number = [&](const char* key, unsigned long long value) { std::fprintf(out, "%s=%llu\n", key, value); };
    const auto triple = [&](const char* key, const unsigned* values) {
        std::fprintf(out, "%s=%u %u %u\n", key, values[0], values[1], values[2]);
    };
    std::fprintf(out, "kernel=%s\nreadable=%s\nmodule=%s\nkinds=%s\n", pending.kernel.c_str(),
                 readable(pending.kernel.c_str()).c_str(), module.file.c_str(), module.kinds.c_str());
    triple("grid", pending.grid);
    triple("block", pending.block);
    triple("cluster", pending.cluster);
    number("index", pending.index);
    number("occurrence", pending.occurrence);
    number("code_base", tracker.code_base);
    number("code_bytes", tracker.code_bytes);
    number("block_limit", tracker.block_limit);
    number("run_blocks", tracker.run_blocks);
    number("run_period", tracker.run_period);
    number("first_run", tracker.first_run);
    number("dynamic_shared_bytes", tracker.dynamic_shared_bytes);
    number("total_shared_bytes", tracker.total_shared_bytes);
    number("dropped", tracker.dropped);
    number("foreign", tracker.foreign);
    number("head_bytes", head * 16);
    number("capacity_bytes", tracker.capacity * 16);
    number("raw_bytes", bytes);
    number("raw_limited", limited);
    number("blocks_per_sm", pending.blocks_per_sm);
    number("sms", pending.sms);
    std::fclose(out);
    std::rename((path + ".part").c_str(), (path + ".launch").c_str());
}

}  // namespace
