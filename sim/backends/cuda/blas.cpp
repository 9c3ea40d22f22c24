// Blas: how a row-major product is put to cuBLASLt, which thinks in columns.
#include "backends/cuda/blas.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "backends/cuda/checked.h"
#include "backends/cuda/library.h"

namespace shardsim::cuda {
namespace {

cudaDataType_t type_of(Dtype type) {
  switch (type) {
    case Dtype::fp32:
      return CUDA_R_32F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::fp16:
      return CUDA_R_16F;
    default:
      throw GpuError(std::string("a matrix product of ") + name_of(type));
  }
}

/// What two products have in common that run the same algorithm. Alignment is of two kinds only, so that where a tensor happens to
/// begin does not choose the order of sums.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Dtype,
                         Dtype, Dtype, bool, bool, bool, bool, unsigned>;

unsigned alignment(const Numbers& numbers, std::int64_t step) {
  const auto at = reinterpret_cast<std::uintptr_t>(numbers.at) | std::uintptr_t(step * bytes_of(numbers.type));
  return at % 16 == 0 ? 16 : unsigned(bytes_of(numbers.type));
}

std::string text_of(const Product& o) {
  return std::to_string(o.m) + " x " + std::to_string(o.n) + " x " + std::to_string(o.k) + " of " + name_of(o.a.type) + " and " +
         name_of(o.b.type) + " to " + name_of(o.out.type);
}

}  // namespace

struct Blas::Loaded {
  Library library{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"};
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulDescCreate)* make_description;
  decltype(cublasLtMatmulDescSetAttribute)* set_description;
  decltype(cublasLtMatmulDescDestroy)* drop_description;
  decltype(cublasLtMatrixLayoutCreate)* make_layout;
  decltype(cublasLtMatrixLayoutSetAttribute)* set_layout;
  decltype(cublasLtMatrixLayoutDestroy)* drop_layout;
  decltype(cublasLtMatmulPreferenceCreate)* make_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;
  decltype(cublasLtMatmulPreferenceDestroy)* drop_preference;
  decltype(cublasLtMatmulAlgoGetHeuristic)* choose;

  /// All that cuBLASLt keeps of a shape.
  struct Plan {
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithm;
  };
  cublasLtHandle_t handle = nullptr;
  std::map<Shape, Plan> plans;

  Loaded() {
    library.find(create, "cublasLtCreate");
    library.find(destroy, "cublasLtDestroy");
    library.find(matmul, "cublasLtMatmul");
    library.find(make_description, "cublasLtMatmulDescCreate");
    library.find(set_description, "cublasLtMatmulDescSetAttribute");
    library.find(drop_description, "cublasLtMatmulDescDestroy");
    library.find(make_layout, "cublasLtMatrixLayoutCreate");
    library.find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    library.find(drop_layout, "cublasLtMatrixLayoutDestroy");
    library.find(make_preference, "cublasLtMatmulPreferenceCreate");
    library.find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    library.find(drop_preference, "cublasLtMatmulPreferenceDestroy");
    library.find(choose, "cublasLtMatmulAlgoGetHeuristic");
    ask(create(&handle), "could not begin");
  }
  ~Loaded() {
    for (auto& [shape, plan] : plans) {
      drop_layout(plan.left), drop_layout(plan.right), drop_layout(plan.out);
      drop_description(plan.description);
    }
    destroy(handle);
  }

  static void ask(cublasStatus_t status, const std::string& what) {
    if (status != CUBLAS_STATUS_SUCCESS) throw GpuError("cuBLASLt " + what + ": status " + std::to_string(int(status)));
  }
  template <class T>
  void describe(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t what, const T& value) {
    ask(set_description(description, what, &value, sizeof value), "refused a description");
  }

  /// A row-major rows x cols matrix is, column by column, cols x rows.
  cublasLtMatrixLayout_t layout(const Numbers& numbers, std::int64_t rows, std::int64_t cols, std::int64_t batch,
                                std::int64_t step) {
    cublasLtMatrixLayout_t made = nullptr;
    ask(make_layout(&made, type_of(numbers.type), std::uint64_t(cols), std::uint64_t(rows), cols), "refused a matrix");
    const std::int32_t count = std::int32_t(batch);
    ask(set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "refused a batch");
    ask(set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step), "refused a batch");
    return made;
  }

  /// out' = b' a': the left factor is b.
  Plan plan_of(const Product& o, unsigned aligned) {
    Plan plan{};
    ask(make_description(&plan.description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "refused fp32 sums");
    describe(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, o.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
    describe(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, o.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (o.bias) {
      describe(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      describe(plan.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(o.bias.type));
      describe(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(o.bias.at));
    }
    plan.left = layout(o.b, o.tb ? o.n : o.k, o.tb ? o.k : o.n, o.batch, o.b_step);
    plan.right = layout(o.a, o.ta ? o.k : o.m, o.ta ? o.m : o.k, o.batch, o.a_step);
    plan.out = layout(o.out, o.m, o.n, o.batch, o.out_step);

    cublasLtMatmulPreference_t preference = nullptr;
    ask(make_preference(&preference), "refused a preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      ask(set_preference(preference, what, &value, sizeof value), "refused a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    // No sums by atomic additions: their order would be another in every run.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(which, std::uint32_t(aligned));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        choose(handle, plan.description, plan.left, plan.right, plan.out, plan.out, preference, 1, &found, &count);
    drop_preference(preference);
    ask(status, "has no algorithm for a product of " + text_of(o));
    if (count == 0) throw GpuError("cuBLASLt has no algorithm for a product of " + text_of(o));
    plan.algorithm = found.algo;
    return plan;
  }
};

Blas::Blas() = default;
Blas::~Blas() = default;

void Blas::product(const Product& o, void* workspace, cudaStream_t stream) {
  if (!loaded_) loaded_ = std::make_unique<Loaded>();
  const unsigned aligned = std::min({alignment(o.a, o.a_step), alignment(o.b, o.b_step), alignment(o.out, o.out_step)});
  const Shape shape{o.m,      o.n,        o.k,  o.batch, o.a_step,     o.b_step,     o.out_step, o.a.type,
                    o.b.type, o.out.type, o.ta, o.tb,    o.accumulate, bool(o.bias), aligned};
  auto found = loaded_->plans.find(shape);
  if (found == loaded_->plans.end()) found = loaded_->plans.emplace(shape, loaded_->plan_of(o, aligned)).first;
  const Loaded::Plan& plan = found->second;
  if (o.bias) loaded_->describe(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(o.bias.at));
  const float beta = o.accumulate ? 1.f : 0.f;
  Loaded::ask(loaded_->matmul(loaded_->handle, plan.description, &o.scale, o.b.at, plan.left, o.a.at, plan.right, &beta, o.out.at,
                              plan.out, o.out.at, plan.out, &plan.algorithm, workspace, workspace_bytes, stream),
              "could not enqueue a product of " + text_of(o));
}

}  // namespace shardsim::cuda
