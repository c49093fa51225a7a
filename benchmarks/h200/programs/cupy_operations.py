"""Operations of CuPy: generated kernels, Thrust, cuFFT, cuSPARSE and a kernel of one's own."""

import cupy
import cupyx.scipy.sparse

x = cupy.random.default_rng(1).random(1 << 18, dtype=cupy.float32)
y = cupy.sqrt(x) * 2 + x
print(float(y.sum()), float(cupy.sort(x)[5]), float(abs(cupy.fft.fft(x)).sum()))
matrix = cupyx.scipy.sparse.random(4096, 4096, density=0.01, dtype=cupy.float32, format="csr", random_state=1)
print(float((matrix @ x[:4096]).sum()))
triad = cupy.RawKernel(
    r"""extern "C" __global__ void triad(const float* a, const float* b, float* c, float s, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) c[i] = a[i] + s * b[i];
    }""",
    "triad",
)
triad((1024,), (256,), (x, y, cupy.empty_like(x), cupy.float32(3), cupy.int32(x.size)))
cupy.cuda.Device().synchronize()
