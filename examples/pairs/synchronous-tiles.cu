// c = a b in tiles of 64 x 64, one block per SM. The fault: the block waits for each tile before it multiplies.
// The cure: cp.async copies the next tiles while the current ones are multiplied.
constexpr int kTile = 64, kStep = 16;

struct Tiles {
    float a[kTile][kStep + 4];  // padded: the two rows that a warp reads lie in different banks
    float b[kStep][kTile];
};

__device__ void multiply(const Tiles &tiles, float (&sums)[4][4])
{
    int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
        float4 b = *reinterpret_cast<const float4 *>(&tiles.b[k][x]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float a = tiles.a[y + i][k];
            sums[i][0] += a * b.x;
            sums[i][1] += a * b.y;
            sums[i][2] += a * b.z;
            sums[i][3] += a * b.w;
        }
    }
}

__device__ void store(int columns, float *c, const float (&sums)[4][4])
{
    int x = blockIdx.x * kTile + threadIdx.x % 16 * 4, y = blockIdx.y * kTile + threadIdx.x / 16 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4 *>(&c[(y + i) * columns + x]) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

__device__ const float *place_in_a(int inner, const float *a)
{
    return a + (blockIdx.y * kTile + threadIdx.x / 4) * inner + threadIdx.x % 4 * 4;
}

__device__ const float *place_in_b(int columns, const float *b)
{
    return b + threadIdx.x / 16 * columns + blockIdx.x * kTile + threadIdx.x % 16 * 4;
}

__device__ void copy_ahead(float *target, const float *source)
{
    unsigned place = (unsigned)__cvta_generic_to_shared(target);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(source));
}

extern "C" __global__ void fault(int columns, int inner, const float *a, const float *b, float *c)
{
    __shared__ Tiles tiles;
    float sums[4][4] = {};
    const float *from_a = place_in_a(inner, a), *from_b = place_in_b(columns, b);
    float *to_a = &tiles.a[threadIdx.x / 4][threadIdx.x % 4 * 4];
    float *to_b = &tiles.b[threadIdx.x / 16][threadIdx.x % 16 * 4];
    for (int start = 0; start < inner; start += kStep) {
        *reinterpret_cast<float4 *>(to_a) = *reinterpret_cast<const float4 *>(from_a + start);
        *reinterpret_cast<float4 *>(to_b) = *reinterpret_cast<const float4 *>(from_b + start * columns);
        __syncthreads();
        multiply(tiles, sums);
        __syncthreads();
    }
    store(columns, c, sums);
}

extern "C" __global__ void cure(int columns, int inner, const float *a, const float *b, float *c)
{
    constexpr int kStages = 3;
    __shared__ Tiles tiles[kStages];
    float sums[4][4] = {};
    const float *from_a = place_in_a(inner, a), *from_b = place_in_b(columns, b);
    auto copy = [&](int step) {
        if (step * kStep < inner) {
            Tiles &target = tiles[step % kStages];
            copy_ahead(&target.a[threadIdx.x / 4][threadIdx.x % 4 * 4], from_a + step * kStep);
            copy_ahead(&target.b[threadIdx.x / 16][threadIdx.x % 16 * 4], from_b + step * kStep * columns);
        }
        asm volatile("cp.async.commit_group;");
    };
    for (int step = 0; step < kStages - 1; ++step)
        copy(step);
    for (int step = 0; step * kStep < inner; ++step) {
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        copy(step + kStages - 1);
        multiply(tiles[step % kStages], sums);
    }
    store(columns, c, sums);
}
