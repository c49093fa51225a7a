// What the tracer knows, and how it says what went wrong. A part of tracer.cpp: nothing here has a name that the traced
// program could see.
#pragma once
#include "record.h"
#include "turns.h"

#include <sanitizer.h>

#include <cxxabi.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Module {
    std::string cubin;  // content, until it has been written
    std::string file;
    std::string kinds;  // numbers of the kinds that were patched
    bool patched = false;
};

// A kernel that is being recorded.
struct Pending {
    std::string kernel;
    CUmodule module = nullptr;
    unsigned long long index = 0, occurrence = 0;
    unsigned grid[3] = {}, block[3] = {}, cluster[3] = {};
    int blocks_per_sm = 0, sms = 0;
    Tracker tracker = {};
    const Tracker* slot = nullptr;  // what the device uses, where it is the kernel of a graph
    const Turns* turns = nullptr;   // with what it shares its function there
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
    std::map<CUcontext, std::pair<Start*, size_t>> memories;
    std::map<CUcontext, std::vector<char*>> slots;  // host memory for trackers of graphs
    std::map<std::string, unsigned long long> occurrences;
    std::vector<char> staging;
    std::vector<Pending> pending;       // one, or the kernels of a graph
    bool in_graph = false;              // from the begin to the end of a graph's launch
    CUcontext graph_context = nullptr;  // whose memory takes the records of the graph
    size_t slots_used = 0;              // by kernels of the graph that is being launched
    std::map<Sanitizer_StreamHandle, Tracker*> shared;  // what all its kernels in a stream get
    std::map<std::pair<Sanitizer_StreamHandle, unsigned long long>, Turns> turns;  // by stream and function
    unsigned long long launched = 0, matched = 0, cubins = 0;
    unsigned dynamic_shared = 0;
    FILE* log = nullptr;  // the kernel of every launch, a line each
    bool used = false;    // CUDA, by this process
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

}  // namespace
