// What copies between host and device take, and what the host takes to issue a launch. Changes no setting.
//
//     nvcc -O2 -arch=native copies.cu -o copies && ./copies > copies.csv
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

// Median microseconds of a call.
template <class Call>
static double microseconds(int repeats, Call call) {
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats; repeat++) {
    auto began = std::chrono::steady_clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

__global__ void empty() {}

int main() {
  constexpr size_t most = size_t(256) << 20;
  char *device, *pinned, *pageable = static_cast<char*>(malloc(most));
  check(cudaMalloc(&device, most));
  check(cudaMallocHost(&pinned, most));
  memset(pageable, 1, most);
  memset(pinned, 1, most);
  printf("what,host memory,bytes,microseconds\n");
  for (char* host : {pinned, pageable})
    for (size_t bytes = 4; bytes <= most; bytes *= 4) {
      const char* kind = host == pinned ? "pinned" : "pageable";
      check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
      double there = microseconds(9, [&] { check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)); });
      double back = microseconds(9, [&] { check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); });
      printf("to device,%s,%zu,%.2f\nto host,%s,%zu,%.2f\n", kind, bytes, there, kind, bytes, back);
    }
  constexpr int launches = 500;
  auto issue = [] {
    for (int index = 0; index < launches; index++) empty<<<1, 32>>>();
  };
  issue();
  check(cudaDeviceSynchronize());
  double issued = microseconds(9, [&] {
    issue();
  });
  check(cudaDeviceSynchronize());
  printf("issue of a launch,,,%.3f\n", issued / launches);
  printf("launch and wait,,,%.3f\n", microseconds(99, [] {
           empty<<<1, 32>>>();
           cudaDeviceSynchronize();
         }));
  double passed = microseconds(9, [&] {
    issue();
    check(cudaDeviceSynchronize());
  });
  printf("launch in a row,,,%.3f\n", passed / launches);
}
