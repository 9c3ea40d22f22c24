// GpuRow: the table of GPUs and of attention curves.
#include "cost/gpus.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace shardsim::cost {
namespace {

// Peaks, bandwidths, SMs and NVLink are those of the vendors' data sheets, as collected in stas00/ml-engineering
// (compute/accelerator), karpathy/llm.c (llmc/mfu.h) and pytorch/ao (roofline_utils). Memory is the total that nvidia-smi prints on
// the part, in public logs. GeForce peaks are the specified half rate with fp32 sums.
//
// gemm_efficiency is the share of the peak that matrix products reach inside a training step, once waves and the output's write are
// counted apart. It is a fact of a power limit and a library as much as of a part: THE number to calibrate. memory_efficiency:
// STREAM-like kernels (RRZE-HPC/gpu-benches); 0.88 where unmeasured. kernel_us: kernels of a CUDA graph, one behind the other
// (gpu-benches: H200 1.2, A100 1.7, L40 1.1; others take the nearest); launches are the host's and priced apart.
constexpr GpuRow table[] = {
    {"v100-sxm2", "V100 SXM2", "volta", 15.7, 125, 900, 32768, 80, 150, 3, 0.75, 0.89, 1.7, "a100", 0.44, "unfused",
     "assumed; no bf16: fp16"},
    {"a100-sxm-40gb", "A100 SXM 40GB", "ampere", 19.5, 312, 1555, 40960, 108, 300, 4, 0.78, 0.88, 1.7, "a100", 1, "fa2",
     "llm-foundry 0.79, fms-fsdp 0.79-0.84, torchtitan 0.72, TinyLlama 0.70"},
    {"a100-sxm-80gb", "A100 SXM 80GB", "ampere", 19.5, 312, 2039, 81920, 108, 300, 4, 0.78, 0.85, 1.7, "a100", 1, "fa2",
     "llm-foundry 0.79, fms-fsdp 0.79-0.84, torchtitan 0.72, TinyLlama 0.70"},
    {"a100-pcie-80gb", "A100 PCIe 80GB", "ampere", 19.5, 312, 1935, 81920, 108, 0, 4, 0.75, 0.86, 1.7, "a100", 0.93, "fa2",
     "largest matmul 253 Tf (ml-engineering), SimuMax's matmul table 0.80; attention scaled by the largest matmul's"},
    {"h100-sxm", "H100 SXM", "hopper", 67, 989, 3350, 81559, 132, 450, 5, 0.65, 0.91, 1.2, "h100", 1, "fa2",
     "llm-foundry 0.645, fms-fsdp 0.60, llm.c 0.67; 0.72 with libraries of 2025 (LLMQ 0.74)"},
    {"h100-pcie", "H100 PCIe", "hopper", 51, 756, 2000, 81559, 114, 0, 5, 0.60, 0.84, 1.2, "h100", 0.71, "fa2",
     "the SXM part's by the square root of the power limit, 350 of 700 W"},
    {"h100-nvl", "H100 NVL", "hopper", 60, 835, 3900, 95830, 132, 300, 5, 0.58, 0.88, 1.2, "h100", 0.76, "fa2",
     "the SXM part's by the square root of the power limit, 400 of 700 W"},
    {"h100-96gb-500w", "H100 SXM 96GB 500W", "hopper", 67, 989, 2400, 97871, 132, 450, 5, 0.53, 0.88, 1.2, "h100", 1, "fa2",
     "torchtitan's tables of December 2024, 0.52"},
    {"h200", "H200", "hopper", 67, 989, 4800, 143771, 132, 450, 5, 0.65, 0.88, 1.2, "h100", 1, "fa2",
     "as H100 SXM; one public step says 0.60 (ml-engineering)"},
    {"gh200", "GH200", "hopper", 67, 989, 4000, 97871, 132, 450, 5, 0.65, 0.79, 1.2, "h100", 1, "fa2",
     "as H100 SXM; largest matmul 829 Tf (ml-engineering)"},
    {"b200", "B200", "blackwell", 80, 2250, 8000, 183359, 148, 900, 5, 0.48, 0.88, 1.2, "b200", 1, "fa4",
     "one public step 0.44; matmul tables 0.485 (SimuMax); largest matmul 1745 Tf (ml-engineering)"},
    {"gb200", "GB200", "blackwell", 80, 2500, 8000, 189471, 152, 900, 5, 0.55, 0.88, 1.2, "b200", 1, "fa4",
     "one public step 0.53-0.60; largest matmul 1822 Tf (ml-engineering)"},
    {"l40s", "L40S", "ampere", 91.6, 362, 864, 46068, 142, 0, 4, 0.60, 0.89, 1.1, "", 0, "fa2", "LLMQ's benchmarks, at 350 W"},
    {"rtx-a6000", "RTX A6000", "ampere", 38.7, 154.8, 768, 49140, 84, 56, 4, 0.75, 0.88, 1.7, "", 0, "fa2", "assumed"},
    {"rtx-4090", "RTX 4090", "ampere", 82.6, 165.2, 1008, 24564, 128, 0, 4, 1.0, 0.88, 1.1, "", 0, "fa2",
     "LLMQ's benchmarks; half-rate tensor cores never limit"},
    {"rtx-5090", "RTX 5090", "blackwell", 104.8, 209.5, 1792, 32607, 170, 0, 5, 1.15, 0.88, 1.1, "", 0, "fa2",
     "LLMQ's benchmarks; the clock exceeds the specified one"},
    {"rtx-pro-6000", "RTX PRO 6000", "blackwell", 125, 504, 1792, 97887, 188, 0, 5, 0.80, 0.88, 1.1, "", 0, "fa2",
     "LLMQ's benchmarks, at 600 W; another public machine reaches 0.5 (262 Tf, 8192^3)"},
    {"mi300x", "MI300X", "", 163.4, 1307, 5300, 196592, 304, 448, 5, 0.41, 0.77, 1.7, "", 0, "fa2",
     "0.8 of the largest matmul, 668 Tf (ml-engineering)"},
};

/// Forward and backward, causal, Tf and tokens: fits to the curves that the kernels' authors plot (Dao-AILab/flash-attention);
/// cuDNN and FA3 are forward curves scaled for the backward pass, FA4 an estimate near the 834 Tf of a public step. The Triton
/// kernel of 2022 spends less of its time in the forward pass. Heads of 64 with FA4 are assumed to lose as much as with FA3.
struct Curve {
  const char *gpu, *kernel;
  AttentionSpeed of_64, of_128;
};
constexpr double T = 1e12;
constexpr Curve curves[] = {
    {"a100", "fa1", {95 * T, 350}, {81 * T, 273}},     {"a100", "triton", {82 * T, 170, 0.18}, {80 * T, 319, 0.18}},
    {"a100", "fa2", {176 * T, 505}, {194 * T, 485}},   {"a100", "unfused", {35 * T, 0}, {35 * T, 0}},
    {"h100", "fa1", {153 * T, 246}, {133 * T, 207}},   {"h100", "triton", {153 * T, 246, 0.18}, {133 * T, 207, 0.18}},
    {"h100", "fa2", {293 * T, 546}, {333 * T, 532}},   {"h100", "cudnn", {380 * T, 450}, {500 * T, 450}},
    {"h100", "fa3", {430 * T, 800}, {520 * T, 800}},   {"h100", "unfused", {66 * T, 0}, {66 * T, 0}},
    {"b200", "fa4", {786 * T, 1000}, {950 * T, 1000}},
};

/// What people say for short.
constexpr std::pair<const char*, const char*> short_names[] = {
    {"v100", "v100-sxm2"}, {"a100", "a100-sxm-80gb"}, {"h100", "h100-sxm"}, {"a6000", "rtx-a6000"}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower((unsigned char)c));
  return out;
}

/// What NCCL takes for a link of 16 lanes (src/graph/topo.h): 12 GB/s in the third generation, twice that in each one after it.
/// Grace's parts hang on NVLink-C2C, of which a GPU's share is the user's to say.
double host_link(const GpuRow& row) {
  const bool is_grace = std::string_view(row.key).starts_with("g");
  return is_grace ? 0 : 12e9 * double(1 << (row.pcie - 3));
}

bool is_old(const GpuRow& row) { return std::string_view(row.key) == "v100-sxm2"; }  // no FlashAttention before Ampere

AttentionSpeed scaled(AttentionSpeed speed, double share) {
  speed.flops *= share;
  return speed;
}

}  // namespace

std::span<const GpuRow> gpu_table() { return table; }

const GpuRow* find_gpu(std::string_view name) {
  std::string wanted = lower(name);
  for (const auto& [short_name, key] : short_names)
    if (wanted == short_name) wanted = key;
  for (const GpuRow& row : table)
    if (wanted == row.key || wanted == lower(row.name)) return &row;
  return nullptr;
}

std::string known_gpus() {
  std::string all;
  for (const GpuRow& row : table) all += (all.empty() ? "" : ", ") + std::string(row.key);
  return all;
}

void use(const GpuRow& row, Gpu& gpu) {
  gpu.fp32_flops = row.fp32_tflops * T, gpu.bf16_flops = row.bf16_tflops * T;
  gpu.memory_bandwidth = row.bandwidth_gbps * 1e9;
  gpu.memory_bytes = std::int64_t(row.memory_mib * 1048576);
  gpu.gemm_efficiency = row.gemm_efficiency, gpu.memory_efficiency = row.memory_efficiency;
  gpu.kernel_seconds = row.kernel_us * 1e-6, gpu.launch_seconds = 5e-6;
  gpu.multiprocessors = row.multiprocessors;
  gpu.host_link_bandwidth = host_link(row);
  gpu.contention = 5;  // fitted to MosaicML's and IBM's FSDP tables; see README
  use_attention(row, row.attention, gpu);
}

std::vector<std::string> attention_kernels(const GpuRow& row) {
  std::vector<std::string> names;
  Gpu ignored;
  for (const char* kernel : {"unfused", "triton", "fa1", "fa2", "cudnn", "fa3", "fa4"})
    if (use_attention(row, kernel, ignored)) names.push_back(kernel);
  return names;
}

bool use_attention(const GpuRow& row, std::string_view kernel, Gpu& gpu) {
  if (is_old(row) && kernel != "unfused") return false;
  for (const Curve& curve : curves)
    if (curve.gpu == std::string_view(row.curves) && curve.kernel == kernel) {
      gpu.attention_64 = scaled(curve.of_64, row.curves_share), gpu.attention_128 = scaled(curve.of_128, row.curves_share);
      gpu.attention = kernel;
      return true;
    }
  if (*row.curves || kernel != "fa2") return false;
  // No published curve. Assumed: 0.66 of what matrix products sustain, between an A100's 0.80 and an H100's 0.52.
  gpu.attention_64 = gpu.attention_128 = {0.66 * row.gemm_efficiency * row.bf16_tflops * T, 500};
  gpu.attention = kernel;
  return true;
}

}  // namespace shardsim::cost
