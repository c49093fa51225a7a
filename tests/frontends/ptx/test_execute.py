"""Launches: results, faults with their places, limits, workers, and what the trace says."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from warplens.errors import KernelFault, PtxError
from warplens.traces.checks import problem_of

TWICE = 'extern "C" __global__ void k(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'


def kernel(source: str, name: str = "k", **options):
    return warplens.cuda(source, **options).kernel(name)


def test_arrays_are_changed_and_the_trace_is_sound():
    x = np.arange(1000, dtype=np.float32)
    run = kernel('extern "C" __global__ void k(int n, float* x) { int i = blockIdx.x * 96 + threadIdx.x;'
                 " if (i < n) x[i] += 1; }").launch(11, 96, np.int32(1000), x)  # fmt: skip
    assert np.array_equal(x, np.arange(1000) + 1)
    trace = run.trace()
    assert trace.header.blocks == 11 and trace.header.registers_per_thread > 0
    for group in trace.groups():
        assert problem_of(group, trace.static, trace.header) is None
    assert sum(group.instructions for group in trace.groups()) == run.instructions
    # The last block has 40 threads in range: one full warp, and 8 lanes of the second.
    last = list(trace.groups())[-1]
    loads = np.flatnonzero(trace.static.class_id[last.static] == warplens.traces.CLASS_IDS["load_global"])
    assert last.mask[loads[-1]] == 0xFF


def test_the_same_whatever_the_number_of_workers():
    source = """extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[64]; int t = threadIdx.x; s[t] = x[blockIdx.x * 64 + t]; __syncthreads();
        float sum = 0; for (int i = 0; i <= (t + blockIdx.x) % 7; ++i) sum += s[(t + i) % 64];
        y[blockIdx.x * 64 + t] = sum; }"""
    x = np.random.default_rng(1).random(64 * 50, dtype=np.float32)
    results = []
    for workers in (1, 2, 5):
        y = np.zeros_like(x)
        trace = kernel(source).launch(50, 64, x, y, workers=workers).trace()
        columns = [np.concatenate([getattr(g, name) for g in trace.groups()]) for name in ("static", "mask", "base")]
        blocks = np.concatenate([group.block for group in trace.groups()])
        results.append((y, blocks, *columns))
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_atomics_of_many_blocks_add_up():
    total, found = np.zeros(1, dtype=np.int32), np.zeros(2000, dtype=np.int32)
    source = 'extern "C" __global__ void k(int* n, int* out) { int i = atomicAdd(n, 1); out[i] = i; }'
    kernel(source).launch(20, 100, total, found)
    assert total[0] == 2000 and np.array_equal(found, np.arange(2000))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x[threadIdx.x + 100] = 1;", r"writes 4 bytes of global memory out of bounds .* argument 0 \(400 bytes\)"),
        ("x[-1 - (int)threadIdx.x] = 1;", "bytes before argument 0"),
        ("*(float*)(size_t)x[5] = 1;", "out of bounds at 0x0"),
        ("*(int*)((char*)x + 2) = 1;", "not a multiple of their size"),
        ("__shared__ float s[8]; s[threadIdx.x + (int)x[0]] = 1; __syncthreads(); x[1] = s[1];", "shared memory"),
        ("if (threadIdx.x == 4) __brkpt();", r"stops itself \(brkpt\) \(block \(0, 0, 0\), thread \(4, 0, 0\)\)"),
        ("if (threadIdx.x == 3) __trap();", r"stops itself \(trap\) \(block \(0, 0, 0\), thread \(3, 0, 0\)\)"),
        ("if (threadIdx.x < 7) { x[0] = 2; __syncthreads(); x[1] = 1; } else __syncthreads(); x[2] = 3;", "wait at"),
    ],
)
def test_faults_name_thread_instruction_and_line(body, message):
    x = np.zeros(100, dtype=np.float32)
    source = f'extern "C" __global__ void k(float* x) {{\n{body}\n}}'
    with pytest.raises(KernelFault, match=message) as caught:
        kernel(source, name="k").launch(1, 64, x)
    assert "kernel.cu: line 2" in str(caught.value) and "PTX line" in str(caught.value)


def test_a_fault_leaves_the_arrays_alone():
    x = np.zeros(10, dtype=np.float32)
    with pytest.raises(KernelFault):
        kernel(TWICE.replace("*= 2", "= 7")).launch(1, 32, x)
    assert not x.any()


def test_an_assertion_that_fails():
    source = '#include <cassert>\nextern "C" __global__ void k(int n) {\nassert(threadIdx.x < n);\n}'
    with pytest.raises(KernelFault, match=r"line 3.*an assertion fails: threadIdx.x < n .*thread \(5, 0, 0\)"):
        kernel(source).launch(1, 6, np.int32(5))
    kernel(source).launch(1, 5, np.int32(5))


def test_barriers_that_nobody_can_complete():
    ptx = """.version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k() { .reg .pred %p<2>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
    @%p1 bra A; bar.sync 1; ret; A: bar.sync 2; ret; }"""
    with pytest.raises(KernelFault, match=r"deadlock.*at barrier 2.*at barrier 1"):
        kernel(ptx).launch(1, 64)


def test_a_barrier_of_all_waits_for_those_that_another_one_just_released():
    ptx = """.version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out) { .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .b32 s[1];
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra ALL; bar.sync 0, 64;
    mov.u32 %r2, 7; st.shared.u32 [s], %r2; ALL: barrier.sync 1; ld.shared.u32 %r3, [s];
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3; ret; }"""
    x = np.zeros(96, dtype=np.int32)
    kernel(ptx).launch(1, 96, x)
    assert x.tolist() == [7] * 96


def test_lanes_meet_again_before_a_loop_that_the_kernel_ends_with():
    ptx = """.version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out) { .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<4>; .shared .b32 s[1];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET; mov.u32 %r2, 7; st.shared.u32 [s], %r2;
    MEET: bar.sync 0; ld.shared.u32 %r3, [s]; mov.u32 %r4, 0;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    LOOP: st.global.u32 [%rd3], %r3; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 2; @%p2 bra LOOP; ret; }"""
    x = np.zeros(64, dtype=np.int32)
    kernel(ptx).launch(1, 64, x)
    assert x.tolist() == [7] * 64


def test_a_lock_between_lanes_of_a_warp_is_found():
    source = """extern "C" __global__ void k(int* lock, int* x) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        *x += 1; __threadfence(); atomicExch(lock, 0); }"""
    with pytest.raises(KernelFault, match=r"repeat a loop that nothing can end.*of the same warp wait"):
        kernel(source).launch(1, 32, np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))


def test_warps_that_wait_for_each_other_do_go_on():
    source = """extern "C" __global__ void k(volatile int* flag, int* x) {
        if (threadIdx.x < 32) { while (*flag == 0) { } *x = 5; } else if (threadIdx.x == 40) *flag = 1; }"""
    x = np.zeros(1, dtype=np.int32)
    kernel(source).launch(1, 64, np.zeros(1, dtype=np.int32), x)
    assert x[0] == 5


def test_limits_end_a_loop():
    source = 'extern "C" __global__ void k(volatile float* x) { for (float n = 0; x[0] > 0; n += 1) x[1] = n; }'
    x = np.ones(2, dtype=np.float32)
    with pytest.raises(KernelFault, match="more than the limit of 1,000,000"):
        kernel(source).launch(1, 32, x, most_instructions=1_000_000)
    with pytest.raises(KernelFault, match=r"stopped after 0\.2 s"):
        kernel(source).launch(1, 32, x, most_seconds=0.2)


def test_a_loop_that_changes_nothing_is_found():
    source = 'extern "C" __global__ void k(float* x) { float s = 1; while (s > 0) s += x[0]; x[1] = s; }'
    with pytest.raises(KernelFault, match="registers and memory stay the same"):
        kernel(source).launch(1, 32, np.zeros(2, dtype=np.float32))


@pytest.mark.parametrize(
    ("grid", "block", "arguments", "message"),
    [
        (0, 32, (np.zeros(64, np.float32),), "grid"),
        (1, 2048, (np.zeros(64, np.float32),), "block"),
        (1, (32, 64), (np.zeros(64, np.float32),), "2048 threads"),
        (1, 32, (), "takes 1 arguments; 0 are given"),
        (1, 32, (np.zeros((64, 2), np.float32)[:, 0],), "not contiguous"),
        (1, 32, (np.float32(1),), "4 bytes, where the kernel expects 8"),
        (1, 32, (np.array([None]),), "Python objects"),
        (1, 32, ("text",), "cannot be passed"),
    ],
)
def test_bad_launches(grid, block, arguments, message):
    with pytest.raises(KernelFault, match=message):
        kernel(TWICE).launch(grid, block, *arguments)


def test_one_array_given_twice_is_one_memory():
    source = 'extern "C" __global__ void k(float* a, float* b, float* c) { a[0] = 1; b[1] = a[0] + 1; c[0] += b[1]; }'
    x = np.zeros(8, dtype=np.float32)
    kernel(source).launch(1, 1, x, x, x[4:])
    assert x.tolist() == [1, 2, 0, 0, 2, 0, 0, 0]
    kernel(source).launch(1, 1, x[:5], x[2:], x[4:])  # views of one array
    assert x.tolist() == [1, 2, 0, 2, 4, 0, 0, 0]
    memory = bytearray(32)
    parts = [np.frombuffer(memory, np.float32, 5, offset) for offset in (0, 8, 12)]
    with pytest.raises(KernelFault, match="overlaps another array in part"):
        kernel(source).launch(1, 1, *parts)


def test_constants_shared_memory_of_the_launch_and_special_registers():
    source = """__constant__ float scale[2];
    extern "C" __global__ void k(int* x) { extern __shared__ int s[]; int t = threadIdx.x + threadIdx.y * blockDim.x;
        s[t] = t * (int)scale[1]; __syncthreads();
        x[(blockIdx.y * gridDim.x + blockIdx.x) * 24 + t] = s[23 - t] + blockIdx.y * 1000; }"""
    x = np.zeros(6 * 24, dtype=np.int32)
    constants = {"scale": np.array([0, 3], dtype=np.float32)}
    kernel(source).launch((3, 2), (8, 3), x, dynamic_shared_memory_bytes=96, constants=constants)
    expected = np.concatenate([(23 - np.arange(24)) * 3 + (b // 3) * 1000 for b in range(6)])
    assert np.array_equal(x, expected)
    with pytest.raises(KernelFault, match="shared memory"):
        kernel(source).launch((3, 2), (8, 3), x, dynamic_shared_memory_bytes=92, constants=constants)
    with pytest.raises(KernelFault, match="no variable is named 'scales'"):
        kernel(source).launch(1, 1, x, constants={"scales": np.zeros(1)})


def test_groups_larger_than_a_warp_have_shared_memory_that_the_launch_does_not_ask_for():
    source = """extern "C" __global__ void k(int *out) {
        extern __shared__ int own[]; unsigned at; asm("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(at));
        own[threadIdx.x] = threadIdx.x; at += 280 + threadIdx.x / 32 * 4;
        if (threadIdx.x % 32 == 0) asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(threadIdx.x + 7));
        __syncthreads(); int read; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(read) : "r"(at));
        out[threadIdx.x] = read + own[threadIdx.x]; }"""
    out = np.zeros(64, np.int32)
    run = kernel(source).launch(1, 64, out, dynamic_shared_memory_bytes=256)
    assert np.array_equal(out, np.arange(64) + np.arange(64) // 32 * 32 + 7)
    assert run.trace().header.shared_memory_per_block_bytes == 256
    with pytest.raises(KernelFault, match="shared memory"):
        kernel(source.replace("280 +", "288 +")).launch(1, 64, out, dynamic_shared_memory_bytes=256)


def test_device_functions_are_called():
    source = """#include <cstdio>
    __device__ __noinline__ int step(int n) {
        int s = 0; for (int i = 0; i < n; ++i) { s += i * i; if (s > 50) return -s; } return s; }
    extern "C" __global__ void k(int* x) { printf("%d", x[0]); x[threadIdx.x] = step(threadIdx.x); }"""
    x = np.zeros(40, dtype=np.int32)
    kernel(source).launch(1, 40, x)

    def step(n):
        total = 0
        for i in range(n):
            total += i * i
            if total > 50:
                return -total
        return total

    assert x.tolist() == [step(n) for n in range(40)]


def test_local_memory_is_interleaved_in_the_trace():
    source = """extern "C" __global__ void k(int* x, int n) { int a[8]; for (int i = 0; i < 8; ++i) a[i] = x[i];
        x[threadIdx.x] = a[n]; }"""
    x = np.arange(32, dtype=np.int32)
    trace = kernel(source).launch(1, 32, x, np.int32(3)).trace()
    group = next(iter(trace.groups()))
    accesses = trace.static.access_bytes[group.static] > 0
    spaces = trace.static.space[group.static][accesses]
    local = spaces == warplens.traces.SPACES.index("local")
    assert local.any() and set(group.stride[local & (group.stride > 0)].tolist()) == {4}
    assert np.array_equal(x, np.full(32, 3))


def test_generic_accesses_get_the_space_they_met():
    source = """__device__ __noinline__ void put(int* p, int v) { *p = v; }
    extern "C" __global__ void k(int* x) { __shared__ int s[32]; put(&s[threadIdx.x], threadIdx.x); __syncthreads();
        x[threadIdx.x] = s[31 - threadIdx.x]; }"""
    x = np.zeros(32, dtype=np.int32)
    trace = kernel(source).launch(1, 32, x).trace()
    stores = [
        (name, warplens.traces.SPACES[space])
        for name, space in zip(trace.static.opcode, trace.static.space, strict=True)
        if name.startswith("st.") and "param" not in name
    ]
    assert ("shared" in dict(stores).values()) and np.array_equal(x, np.arange(32)[::-1])


def test_some_blocks_only():
    x = np.ones(64 * 10, dtype=np.float32)
    trace = kernel(TWICE).launch(10, 64, x, blocks=3).trace()
    assert x.sum() == 640 + 64 * 3
    assert trace.header.extra["recorded_blocks"] == 3
    whole = kernel(TWICE).launch(10, 64, np.ones(640, dtype=np.float32)).trace()
    parts = [warplens.predict(each, "h200", "mdm") for each in (trace, whole)]
    assert parts[0].cycles == pytest.approx(parts[1].cycles)
    assert any("3 of 10 thread blocks" in text for text in parts[0].warnings)


def blocks_of(trace) -> list[int]:
    return sorted({int(block) for group in trace.groups() for block in group.block})


def test_blocks_that_are_run_are_from_the_middle():
    source = """extern "C" __global__ void k(float* x, const float* y) {
        float sum = 0;
        for (int i = 0; i < blockIdx.x; ++i) sum += y[i * 32 + threadIdx.x];
        x[blockIdx.x * 32 + threadIdx.x] = sum; }"""
    arrays = np.zeros(256 * 32, dtype=np.float32), np.ones(256 * 32, dtype=np.float32)
    trace = kernel(source).launch(256, 32, *arrays, blocks=64).trace()
    assert blocks_of(trace) == list(range(96, 160))
    whole = kernel(source).launch(256, 32, *arrays).trace()
    part, all_of_it = (sum(group.instructions for group in each.groups()) for each in (trace, whole))
    assert part / 64 == pytest.approx(all_of_it / 256, rel=0.01)


def test_ranges_of_blocks():
    x = np.ones(64 * 10, dtype=np.float32)
    assert blocks_of(kernel(TWICE).launch(10, 64, x, blocks=[range(2, 4), range(4, 5)]).trace()) == [2, 3, 4]
    assert x.reshape(10, 64).sum(axis=1).tolist() == [64.0] * 2 + [128.0] * 3 + [64.0] * 5


def test_blocks_that_wait_for_others_are_run_from_the_first_on():
    source = """extern "C" __global__ void k(volatile int* flags) {
        if (blockIdx.x) while (!flags[blockIdx.x - 1]) {}
        flags[blockIdx.x] = 1; }"""
    trace = kernel(source).launch(256, 1, np.zeros(256, dtype=np.int32), blocks=16, most_seconds=20).trace()
    assert blocks_of(trace) == list(range(16))


def test_without_recording_there_is_no_trace():
    run = kernel(TWICE).launch(1, 32, np.ones(32, dtype=np.float32), record=False)
    with pytest.raises(KernelFault, match="not recorded"):
        run.trace()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frobnicate.u32 %r1, %r1;", r"line 5: frobnicate.u32: this instruction is not supported"),
        ("multimem.red.add.u32 [%r1], 1;", "multimem.red.add.u32: this instruction is not supported"),
        ("add.u32 %r1, %r9, 1;", "neither declared nor a supported special register"),
        ("bra nowhere;", "needs a label"),
        ("add.u32 %r1;", "operand 2 is missing"),
        (".reg .b16 %h; fma.rn.oob.f16 %h, %h, %h, %h;", "fma.rn.oob.f16: this form .* is not supported"),
        ("barrier.cluster.acquire;", "this form of the instruction is not supported"),
        ("{ .param .b8 p; ld.param.pred %r1, [p]; }", "a parameter of a call cannot be a predicate"),
        ("mov.u32 %r1, 5", "expected ';', found"),
    ],
)
def test_what_is_not_covered_is_named_with_its_line(text, message):
    ptx = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<3>;\n{text}\nret; }}"
    with pytest.raises(PtxError, match=message):
        kernel(ptx).launch(1, 1)


def test_the_kernel_is_named_by_the_nearest_when_mistyped():
    with pytest.raises(PtxError, match="did you mean 'twice'"):
        kernel(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry twice() { ret; }", "twise").launch(
            1, 1
        )


def test_lanes_that_leave_early_are_not_waited_for_at_a_barrier():
    source = """extern "C" __global__ void k(int* x, int n) { __shared__ int s[64]; int t = threadIdx.x;
        if (t % 3 == n) { atomicAdd(x + 64, t); return; }
        s[t] = t; __syncthreads();
        x[t] = s[(t + 3) % 63]; }"""
    x = np.zeros(65, dtype=np.int32)
    kernel(source).launch(1, 64, x, np.int32(1))
    t = np.arange(64)
    assert np.array_equal(x[:64], np.where(t % 3 == 1, 0, (t + 3) % 63 * ((t + 3) % 63 % 3 != 1)))
    assert x[64] == t[t % 3 == 1].sum()


def test_lanes_that_leave_through_a_tail_that_others_share_are_not_waited_for_at_a_barrier():
    source = """extern "C" __global__ void k(int* x, int n) { __shared__ int s[64]; int t = threadIdx.x;
        if (t % 3 == n) { x[t] = -1; return; }
        s[t] = t; __syncthreads();
        x[t] = s[t ^ 1]; }"""
    x = np.zeros(64, dtype=np.int32)
    kernel(source).launch(1, 64, x, np.int32(1))
    t = np.arange(64)
    assert np.array_equal(x, np.where(t % 3 == 1, -1, (t ^ 1) * ((t ^ 1) % 3 != 1)))


def test_a_parameter_may_be_read_narrower_than_it_was_passed():
    source = """__device__ __noinline__ int pick(unsigned short a, signed char b) { return a + b; }
        extern "C" __global__ void k(int* x) { x[threadIdx.x] = pick(x[threadIdx.x], x[threadIdx.x + 32]); }"""
    x = np.concatenate([np.arange(32) * 5000, np.arange(32) * 9 - 150]).astype(np.int32)
    expected = (x[:32].astype(np.uint16).astype(np.int32) + x[32:].astype(np.int8)).tolist()
    kernel(source).launch(1, 32, x)
    assert x[:32].tolist() == expected


def test_labels_after_the_last_ret_are_nothing():
    """Triton ends every kernel with labels for the debugger."""
    head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    assert warplens.cuda(f"{head}ret;\n$L__tmp1:\n$L__func_end0:\n}}").kernel("k").launch(1, 32).instructions == 1
    with pytest.raises(PtxError, match="does not end with ret"):
        warplens.cuda(f"{head}bra $L__end;\nret;\n$L__end:\n}}").kernel("k").launch(1, 32)
