// Maximum of a volume along z. The fault: threadIdx.x counts y, which is not the fastest index of the array.
// The cure: threadIdx.x counts x.
__device__ float column_maximum(int width, int height, int depth, int x, int y, const float *volume)
{
    float most = volume[y * width + x];
    for (int z = 1; z < depth; ++z)
        most = fmaxf(most, volume[(z * height + y) * width + x]);
    return most;
}

extern "C" __global__ void fault(int width, int height, int depth, const float *volume, float *most)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        most[y * width + x] = column_maximum(width, height, depth, x, y, volume);
}

extern "C" __global__ void cure(int width, int height, int depth, const float *volume, float *most)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        most[y * width + x] = column_maximum(width, height, depth, x, y, volume);
}
