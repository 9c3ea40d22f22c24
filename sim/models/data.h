// Data: the rows that training is fed with, and the parameters it starts from. Plain numbers on the host, real sizes only.
#pragma once
#include <cstdint>
#include <vector>

namespace shardsim {

class Data {
 public:
  /// x is rows x in, y is rows x out, row-major; at least one row.
  Data(std::vector<float> x, std::int64_t in, std::vector<float> y, std::int64_t out);

  /// Random inputs and what a random network of the same widths (the teacher) answers: a task that the student can learn
  /// exactly. The same bytes on any machine.
  static Data from_teacher(const std::vector<std::int64_t>& widths, std::int64_t rows, std::uint64_t seed);

  /// Who asks for rows: rank r of N, in micro-batch a of A of step t (from 0), for B rows.
  struct Place {
    std::int64_t step, micro_batch, micro_batches, rank, world, rows;
  };
  /// Rows ((t A + a) N + r) B ... + B of x and y, wrapping around the data set.
  void fill(const Place&, std::vector<float>& x, std::vector<float>& y) const;

  std::int64_t rows() const { return rows_; }

 private:
  std::vector<float> x_, y_;
  std::int64_t in_, out_, rows_;
};

/// Seeded parameters of an MLP, model order: for each layer W (in x out, row-major), uniform in +-sqrt(3/in), so that
/// signals keep their size through many layers; then b, zero.
std::vector<float> seeded_theta(const std::vector<std::int64_t>& widths, std::uint64_t seed);

}  // namespace shardsim
