// Random weights: element i of a tensor is a function of the tensor's seed and
// of i alone, so that any program can make the same model.
//
//   z = splitmix64's output function of seed + (i+1)*0x9e3779b97f4a7c15
//   value = bf16(scale * (((z >> 40) + 0.5) / 2^23 - 1)), or fp16 of it
//
// which is uniform in (-scale, scale). (Steele, Lea, Flood 2014, "Fast
// splittable pseudorandom number generators".)

__device__ __forceinline__ u64 splitmix64(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ bf16 random_weight(u64 i, u64 seed, float scale) {
  u64 z = splitmix64(seed + (i + 1) * 0x9e3779b97f4a7c15ull);
  float u = ((float)(u32)(z >> 40) + 0.5f) * (1.f / 8388608.f) - 1.f;
  return to_16bit(scale * u);
}

extern "C" __global__ void fill_random(bf16 *out, u64 n, u64 seed, float scale) {
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) out[i] = random_weight(i, seed, scale);
}

// fill_random_part fills out[rows][columns] with a part of a tensor whose rows have width values. The
// part begins at row and column, and its values are those that fill_random gives the whole tensor.
extern "C" __global__ void fill_random_part(bf16 *out, u64 rows, u64 columns, u64 row, u64 column, u64 width, u64 seed, float scale) {
  for (u64 r = blockIdx.x; r < rows; r += gridDim.x)
    for (u64 c = threadIdx.x; c < columns; c += blockDim.x) out[r * columns + c] = random_weight((row + r) * width + column + c, seed, scale);
}

extern "C" __global__ void fill_constant(bf16 *out, u64 n, float value) {
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) out[i] = to_16bit(value);
}
