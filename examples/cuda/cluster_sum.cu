// Sums of parts of an array: the blocks of a cluster add up in the shared memory of the first.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(const float *values, float *sums, int per_block) {
    __shared__ float partial[8], total;
    cg::cluster_group cluster = cg::this_cluster();
    float sum = 0;
    for (int i = threadIdx.x; i < per_block; i += 256) sum += values[blockIdx.x * per_block + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    if (threadIdx.x == 0) total = 0;
    cluster.sync();
    if (threadIdx.x == 0) {
        float own = 0;
        for (int warp = 0; warp < 8; warp++) own += partial[warp];
        atomicAdd(cluster.map_shared_rank(&total, 0), own);
    }
    cluster.sync();
    if (threadIdx.x == 0 && cluster.block_rank() == 0) sums[blockIdx.x / 4] = total;
}
