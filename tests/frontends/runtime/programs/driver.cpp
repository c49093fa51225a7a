// Uses the driver API with a PTX file: `driver FILE.ptx`. It needs no header of CUDA, so any C++ compiler builds it.
#include <cstdint>
#include <cstdio>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDeviceGet(int*, int);
int cuDeviceGetName(char*, int, int);
int cuDeviceGetAttribute(int*, int, int);
int cuCtxCreate_v2(void**, unsigned, int);
int cuCtxSynchronize();
int cuModuleLoad(void**, const char*);
int cuModuleGetFunction(void**, void*, const char*);
int cuModuleGetGlobal_v2(uint64_t*, size_t*, void*, const char*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemFree_v2(uint64_t);
int cuMemcpyHtoD_v2(uint64_t, const void*, size_t);
int cuMemcpyDtoH_v2(void*, uint64_t, size_t);
int cuMemsetD32_v2(uint64_t, unsigned, size_t);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int cuFuncGetAttribute(int*, int, void*);
int cuEventCreate(void**, unsigned);
int cuEventRecord(void*, void*);
int cuEventElapsedTime(float*, void*, void*);
int cuGetProcAddress_v2(const char*, void**, int, uint64_t, int*);
}

static int failures = 0;

static void check(bool holds, const char* what) {
  if (holds) return;
  printf("%s does not hold\n", what);
  failures++;
}
#define CHECK(condition) check(condition, #condition)
#define GOOD(call) check((call) == 0, #call)

int main(int, char** given) {
  int device, sms, threads;
  char name[100];
  void *context, *module, *function, *missing, *from, *to, *entry;
  GOOD(cuInit(0));
  GOOD(cuDeviceGet(&device, 0));
  GOOD(cuDeviceGetName(name, sizeof name, device));
  GOOD(cuDeviceGetAttribute(&sms, 16, device));
  GOOD(cuCtxCreate_v2(&context, 0, device));
  CHECK(cuModuleLoad(&module, "/no/such/file") == 301);
  GOOD(cuModuleLoad(&module, given[1]));
  GOOD(cuModuleGetFunction(&function, module, "scale"));
  CHECK(cuModuleGetFunction(&missing, module, "missing") == 500);
  GOOD(cuFuncGetAttribute(&threads, 0, function));
  uint64_t values, factor;
  size_t bytes;
  const int n = 100, by = 3;
  std::vector<int> host(n);
  GOOD(cuMemAlloc_v2(&values, n * sizeof(int)));
  GOOD(cuMemsetD32_v2(values, 7, n));
  GOOD(cuModuleGetGlobal_v2(&factor, &bytes, module, "factor"));
  GOOD(cuMemcpyHtoD_v2(factor, &by, sizeof by));
  GOOD(cuEventCreate(&from, 0));
  GOOD(cuEventCreate(&to, 0));
  GOOD(cuEventRecord(from, nullptr));
  int count = n;
  void* arguments[] = {&values, &count};
  GOOD(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  struct {
    uint64_t values;
    int n;
  } packed = {values, n};
  size_t size = sizeof packed;
  void* extra[] = {(void*)1, &packed, (void*)2, &size, (void*)0};
  GOOD(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  GOOD(cuEventRecord(to, nullptr));
  GOOD(cuCtxSynchronize());
  float milliseconds = 0;
  GOOD(cuEventElapsedTime(&milliseconds, from, to));
  GOOD(cuMemcpyDtoH_v2(host.data(), values, n * sizeof(int)));
  CHECK(host[0] == 63 && host[n - 1] == 63 && milliseconds > 0 && threads == 1024 && bytes == 4);
  GOOD(cuGetProcAddress_v2("cuMemAlloc", &entry, 12000, 0, nullptr));
  CHECK(entry == (void*)cuMemAlloc_v2);
  GOOD(cuMemFree_v2(values));
  printf("%s, %d SMs: %s\n", name, sms, failures ? "bad" : "good");
  return failures != 0;
}
