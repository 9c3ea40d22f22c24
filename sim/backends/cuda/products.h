// Matrix products: what the executor's product (cuBLASLt on the card) is asked for.
#pragma once
#include <cmath>

#include "backends/cuda/rows.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const Matmul& o) {
  Product product{numbers(o.a), numbers(o.b), numbers(o.out), numbers(o.bias), real(o.out.rows), real(o.out.cols), 0};
  product.k = real(o.ta ? o.a.rows : o.a.cols);
  product.ta = o.ta, product.tb = o.tb, product.accumulate = o.accumulate;
  if (product.m * product.n == 0) return;
  // cuBLASLt adds biases in whole words; others come after the product.
  const bool is_apart = product.bias && !moves_in_words(product.bias);
  if (is_apart) product.bias = {};
  on.product(product);
  if (is_apart) add_bias(on, product.out, numbers(o.bias));
}

template <class On>
void perform(On& on, const BatchedMatmul& o) {
  const std::int64_t batch = real(o.batch);
  if (batch == 0 || size(o.out) == 0) return;
  Product product{numbers(o.a), numbers(o.b), numbers(o.out), {}, real(o.out.rows) / batch, real(o.out.cols), 0};
  product.k = o.ta ? real(o.a.rows) / batch : real(o.a.cols);
  product.ta = o.ta, product.tb = o.tb, product.batch = batch;
  product.a_step = size(o.a) / batch, product.b_step = size(o.b) / batch, product.out_step = size(o.out) / batch;
  product.scale = float(1 / std::sqrt(double(real(o.root))));
  on.product(product);
}

}  // namespace shardsim::cuda
