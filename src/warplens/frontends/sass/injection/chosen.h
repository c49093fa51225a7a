// Which thread blocks of a launch are recorded: runs of consecutive blocks, spread evenly over the grid. The first blocks
// of a grid often do less than the others (they lie on the edge of an image), or more. Neighbours share cache lines, so
// runs are as long as four of them allow, and no longer than a wave.
#pragma once
#include "record.h"

// The number of a block among those that are recorded; at least `block_limit` if it is not.
WARPLENS_BOTH unsigned long long recorded_number(const Tracker* tracker, unsigned long long block) {
    if (block < tracker->first_run) return tracker->block_limit;
    const unsigned long long run = (block - tracker->first_run) / tracker->run_period;
    const unsigned long long within = (block - tracker->first_run) % tracker->run_period;
    return within < tracker->run_blocks ? run * tracker->run_blocks + within : tracker->block_limit;
}

#ifndef __CUDACC__
#include <algorithm>

// Chooses at most `limit` of a launch's blocks; `wave` is how many run at once. Clusters stay whole.
static inline void choose_blocks(Tracker& tracker, unsigned long long limit, unsigned long long wave,
                                 unsigned long long cluster) {
    const unsigned long long fewest_runs = 4, least_run = 8;
    limit = std::min(limit, tracker.blocks);
    unsigned long long runs = std::max(limit / std::max(wave, 1ull), std::min(fewest_runs, limit / least_run));
    if (limit == tracker.blocks) runs = cluster = 1;
    runs = std::max(runs, 1ull);
    const auto whole = [&](unsigned long long blocks) { return blocks >= cluster ? blocks / cluster * cluster : blocks; };
    tracker.run_blocks = whole(limit / runs);
    tracker.run_period = std::max(whole(tracker.blocks / runs), 1ull);
    const unsigned long long last_end = (runs - 1) * tracker.run_period + tracker.run_blocks;
    tracker.first_run = (tracker.blocks - last_end) / 2 / cluster * cluster;
    tracker.block_limit = runs * tracker.run_blocks;
}
#endif
