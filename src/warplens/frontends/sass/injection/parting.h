// Records of kernels that ran at the same time, as those of a CUDA graph do, to a file for each kernel.
#pragma once
#include "record.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

bool write_whole(const std::string& path, const char* mode, const char* data, size_t size) {
    FILE* file = std::fopen(path.c_str(), mode);
    if (file == nullptr) return false;
    const bool whole = std::fwrite(data, 1, size, file) == size;
    return std::fclose(file) == 0 && whole;
}

class Parting {
public:
    // Kernels come in the order of their first blocks.
    void add(unsigned long long first_block, const std::string& path) {
        std::remove(path.c_str());
        parts.push_back({first_block, path});
    }

    // The next piece of the records, which may end within one. False: damaged, or a file cannot be written.
    bool take(const char* data, size_t size) {
        if (parts.size() == 1) return write(parts[0], data, size);
        rest.append(data, size);
        size_t at = 0;
        while (!full && at + 16 <= rest.size()) {
            uint32_t header[4];
            std::memcpy(header, &rest[at], 16);
            const size_t record_bytes = 16 * (header[3] >> 16 & 255);
            full = (header[3] >> 8 & 255) == KIND_HOLE;
            if (full || at + record_bytes > rest.size()) break;
            const auto before = [](unsigned block, const Part& part) { return block < part.first_block; };
            const auto next = std::upper_bound(parts.begin(), parts.end(), header[2], before);
            if (record_bytes == 0 || next == parts.begin()) return false;
            Part& part = next[-1];
            header[2] -= static_cast<unsigned>(part.first_block);
            std::memcpy(&rest[at], header, 16);
            part.waiting.append(rest, at, record_bytes);
            if (part.waiting.size() >= kWaitingBytes && !write_waiting(part)) return false;
            at += record_bytes;
        }
        rest.erase(0, at);
        return true;
    }

    // Whether all records are in the files.
    bool end() { return std::all_of(parts.begin(), parts.end(), write_waiting) && (full || rest.empty()); }

    std::vector<unsigned long long> bytes() const {
        std::vector<unsigned long long> each;
        for (const Part& part : parts) each.push_back(part.bytes);
        return each;
    }

private:
    static constexpr size_t kWaitingBytes = size_t(1) << 16;
    struct Part {
        unsigned long long first_block;
        std::string path;
        std::string waiting = {};
        unsigned long long bytes = 0;
    };

    // Opened each time: a graph may have more kernels than files can be open.
    static bool write(Part& part, const char* data, size_t size) {
        part.bytes += size;
        return write_whole(part.path, "ab", data, size);
    }

    static bool write_waiting(Part& part) {
        const bool whole = write(part, part.waiting.data(), part.waiting.size());
        part.waiting.clear();
        return whole;
    }

    std::vector<Part> parts;
    std::string rest;
    bool full = false;  // a record that found no room: nothing follows
};

}  // namespace
