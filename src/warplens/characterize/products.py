"""Matrix products of a warpgroup (wgmma): the kernels that time them, for compute capability 9.0 only."""

from __future__ import annotations

from ..machine.classes import PRODUCT_COLUMNS

ARCHITECTURE = "sm_90"
#: wgmma is an architecture-specific feature.
FEATURES = "a"
LENGTHS = (16, 48)
#: Warps per SM, in warpgroups of four; accumulators of 256 columns leave no room for a fourth warpgroup.
WARPS = (4, 8, 12)

_KERNEL = """
template <int COLUMNS> struct Product;

// LENGTH products an iteration, each adding to what the last one gave: a chain that does not wait between its links.
template <int COLUMNS, int LENGTH>
__global__ void __launch_bounds__(384, 1) products(Record *records, int iterations, unsigned int operand) {
    extern __shared__ __align__(128) unsigned int words[];
    for (unsigned int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
    asm volatile("fence.proxy.async;" ::: "memory");
    // Matrices of 8 rows by 16 bytes lie one behind the other: 128 bytes to the next in depth, 256 to the next rows.
    unsigned long long layout = (8ull << 16) | (16ull << 32);
    unsigned long long a = layout | ((unsigned int)__cvta_generic_to_shared(words) >> 4);
    unsigned long long b = a + (2048 >> 4);
    Product<COLUMNS> value;
    value.begin();
    __syncthreads();
    Timer timer;
    timer.start();
#pragma unroll 1
    for (int n = 0; n < iterations; ++n) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < LENGTH; ++i) value.step(a, b);
        asm volatile("wgmma.commit_group.sync.aligned;\\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    timer.stop(records, value.end() + operand);
}
"""


def operation(columns: int) -> str:
    return f"matrix_m64n{columns}k16"


def kernel_name(columns: int, length: int) -> str:
    return f"products<{columns},{length}>"


def kernel_names() -> list[str]:
    return [kernel_name(columns, length) for columns in PRODUCT_COLUMNS for length in LENGTHS]


def source() -> str:
    """The source of the kernels. A product names each of its accumulators, so the text is generated."""
    return _KERNEL + "".join(_product(columns) for columns in PRODUCT_COLUMNS)


def _product(columns: int) -> str:
    count = columns // 2
    accumulators = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return f"""
template <> struct Product<{columns}> {{
    float d[{count}];
    __device__ void begin() {{
        for (int i = 0; i < {count}; ++i) d[i] = 0.0f;
    }}
    __device__ void step(unsigned long long a, unsigned long long b) {{
        asm volatile("{{ .reg .pred add; setp.eq.u32 add, 0, 0; "
                     "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{accumulators}}}, %{count}, "
                     "%{count + 1}, add, 1, 1, 0, 0; }}"
                     : {operands}
                     : "l"(a), "l"(b)
                     : "memory");
    }}
    __device__ unsigned int end() {{
        float sum = 0.0f;
        for (int i = 0; i < {count}; ++i) sum += d[i];
        return __float_as_uint(sum);
    }}
}};
"""
