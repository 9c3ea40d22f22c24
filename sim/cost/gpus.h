// GpuRow: the table of GPUs, from data sheets and public measurements, and the attention kernels that run on them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/gpu.h"

namespace shardsim::cost {

struct GpuRow {
  const char *key, *name;           ///< "h100-sxm", "H100 SXM": either names it
  const char* generation;           ///< by which NCCL's tuner knows it (Ada as ampere); empty: none of its own
  double fp32_tflops, bf16_tflops;  ///< dense; fp32 on the CUDA cores (TF32 off); fp16 where there is no bf16
  double bandwidth_gbps;            ///< GB/s of the data sheet
  double memory_mib;                ///< what nvidia-smi prints
  int multiprocessors;
  double nvlink_gbps;  ///< GB/s per direction, of all links together (xGMI of an AMD part); 0: none
  int pcie;            ///< generation, x16
  double gemm_efficiency, memory_efficiency;
  double kernel_us;       ///< fixed time of a kernel
  const char* curves;     ///< whose attention curves are used; empty: assumed ones
  double curves_share;    ///< times these
  const char* attention;  ///< kernel by default
  const char* source;     ///< of the sustained shares; peaks are the vendors'
};

std::span<const GpuRow> gpu_table();
/// By key, name or short name ("h100"), whatever the case; null if there is none.
const GpuRow* find_gpu(std::string_view name);
/// "h100-sxm, h200, ...", for messages.
std::string known_gpus();

/// Copies the row's facts, with the default attention kernel and a launch of 5 us (eager PyTorch; assumed).
void use(const GpuRow&, Gpu&);

/// The kernels whose speed on this GPU is known or can be assumed; the row's default is among them.
std::vector<std::string> attention_kernels(const GpuRow&);
/// Sets the speeds of a kernel; false where it does not run on this GPU or its speed is unknown.
bool use_attention(const GpuRow&, std::string_view kernel, Gpu&);

}  // namespace shardsim::cost
