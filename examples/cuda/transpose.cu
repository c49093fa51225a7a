// out = the transpose of in. Neighbouring threads read neighbouring elements of a row, and write a column.
extern "C" __global__ void transpose(int n, const float *in, float *out)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    out[column * n + row] = in[row * n + column];
}
