// probe_read reads n 16-byte pieces and keeps just enough that the compiler omits no load. It is the
// best that a read of memory can do.
extern "C" __global__ void probe_read(const uint4 *from, u64 n, u32 *sink) {
  u32 x = 0;
  u64 step = (u64)gridDim.x * blockDim.x, i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    uint4 a = __ldcs(from + i), b = __ldcs(from + i + step), c = __ldcs(from + i + 2 * step), d = __ldcs(from + i + 3 * step);
    x ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < n; i += step) {
    uint4 a = __ldcs(from + i);
    x ^= a.x ^ a.y ^ a.z ^ a.w;
  }
  if (x == 0x5ca1ab1e) *sink = x;
}
