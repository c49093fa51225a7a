// C = A B for square matrices, one element of C a thread.
// Neighbouring threads take neighbouring rows: their loads of A and stores of C lie a whole row apart.
extern "C" __global__ void matmul(int n, const float *a, const float *b, float *c)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
