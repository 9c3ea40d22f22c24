// The card's kernels, carried out on the host, against the host's own arithmetic: every op, in every type, at many offsets.
#include <doctest/doctest.h>

#include "gpu/agreement.h"
#include "gpu/host_executor.h"
#include "numerics/every_op.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;
using gpu_tests::run_kernels;

TEST_CASE("the kernels of every op compute what the host's arithmetic does, in every type and at every offset") {
  numerics::fix_blocking();
  for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    for (const std::int64_t n : {0, 1, 3, 17, 64})
      for (const int offset : {0, 1, 8, 11}) {
        CAPTURE(name_of(type));
        CAPTURE(n);
        CAPTURE(offset);
        Workbench on_card(offset), on_host(offset);
        const std::vector<Op> card = all_ops(on_card, n, type), host = all_ops(on_host, n, type);
        for (std::size_t i = 0; i < host.size(); ++i) {
          CAPTURE(name_of(host[i]));
          gpu_tests::begin_alike(card[i], host[i]);
          run_kernels(card[i]);
          numerics::run(host[i]);
          gpu_tests::check_agree(card[i], host[i]);
        }
        CHECK(on_card.margins_untouched());
      }
}
