// Keeps the values below a limit, in order: each block fills the front of its own 256 places of the
// output and says how many there are. Ranks come from votes of warps.
constexpr int kThreads = 256;

extern "C" __global__ void stream_compaction(const unsigned* __restrict__ values, unsigned* __restrict__ kept,
                                             int* __restrict__ counts, unsigned limit, int n) {
  __shared__ int warp_counts[kThreads / 32];
  long long i = (long long)blockIdx.x * kThreads + threadIdx.x;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned value = i < n ? values[i] : 0u;
  bool keep = i < n && value < limit;
  unsigned votes = __ballot_sync(0xffffffffu, keep);
  if (lane == 0) warp_counts[warp] = __popc(votes);
  __syncthreads();
  int before = 0, total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w == warp) before = total;
    total += warp_counts[w];
  }
  if (keep) kept[(long long)blockIdx.x * kThreads + before + __popc(votes & ((1u << lane) - 1u))] = value;
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}
