// Every thread follows a chain of indices from a place of its own; each load needs the one before it.
extern "C" __global__ void pointer_chase(const unsigned* __restrict__ next, unsigned* __restrict__ place, int hops) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = place[i];
#pragma unroll 4
  for (int hop = 0; hop < hops; ++hop) at = next[at];
  place[i] = at;
}
