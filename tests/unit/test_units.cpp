// Cutting a model into units, and the two-sided sizes that they are made of.
#include <doctest/doctest.h>

#include "core/mesh.h"
#include "core/quantity.h"
#include "core/unit.h"

using namespace shardsim;

namespace {

/// Modules of these many parameters; nothing of it can run.
class Sizes : public Model {
 public:
  explicit Sizes(std::initializer_list<std::int64_t> counts) {
    for (std::int64_t count : counts) {
      visits_.push_back(int(layouts_.size()));
      layouts_.push_back({{"w", Dim(1, 1), Dim(count, count)}});
    }
  }
  /// The first module is visited again at the end, as a tied embedding is.
  Sizes& tied() {
    visits_.push_back(0);
    return *this;
  }
  const std::vector<int>& visits() const override { return visits_; }
  int modules() const override { return int(layouts_.size()); }
  const Layout& layout(int module) const override { return layouts_[std::size_t(module)]; }
  void begin_step(int, Tensor) override {}
  void load(int, int) override {}
  void forward(int, Tensor) override {}
  void backward(int, Tensor, Tensor, bool) override {}
  void end_step(std::vector<float>&) override {}

 private:
  std::vector<Layout> layouts_;
  std::vector<int> visits_;
};

std::vector<std::int64_t> counts(const std::vector<Unit>& units) {
  std::vector<std::int64_t> counts;
  for (const Unit& unit : units) counts.push_back(unit.count.charged());
  return counts;
}

}  // namespace

TEST_CASE("whole is one unit, layer is one per module, and each is padded to the world") {
  const Sizes model{10, 20, 30};
  CHECK(counts(cut(model, {Cut::Kind::whole, 0}, 8, 4)) == std::vector<std::int64_t>{60});
  const std::vector<Unit> layers = cut(model, {Cut::Kind::layer, 0}, 8, 4);
  CHECK(counts(layers) == std::vector<std::int64_t>{10, 20, 30});
  CHECK(layers[0].padded.charged() == 16);
  CHECK(layers[1].padded.charged() == 24);
  CHECK(layers[2].begin.charged() == 30);
}

TEST_CASE("buckets fill from the last module on and are closed by the module that fills them") {
  const Sizes model{10, 20, 30, 40};
  // 4-byte gradients: the last module has 160 bytes, the one before it 120, then 80 and 40.
  CHECK(counts(cut(model, {Cut::Kind::bucket, 200}, 1, 4)) == std::vector<std::int64_t>{30, 70});
  CHECK(counts(cut(model, {Cut::Kind::bucket, 160}, 1, 4)) == std::vector<std::int64_t>{10, 50, 40});
  CHECK(counts(cut(model, {Cut::Kind::bucket, 1}, 1, 4)) == std::vector<std::int64_t>{10, 20, 30, 40});
  CHECK(counts(cut(model, {Cut::Kind::bucket, 1 << 30}, 1, 4)) == std::vector<std::int64_t>{100});
}

TEST_CASE("the overlap of two ranges is empty where they only touch") {
  auto dim = [](std::int64_t n) { return Dim(n, n); };
  CHECK(overlap(dim(0), dim(10), dim(4), dim(3)) == std::pair(dim(4), dim(3)));
  CHECK(overlap(dim(5), dim(10), dim(0), dim(7)) == std::pair(dim(5), dim(2)));
  CHECK(overlap(dim(0), dim(4), dim(4), dim(9)).second == none);
  CHECK(overlap(dim(8), dim(4), dim(0), dim(3)).second == none);
  // Charged and real sides overlap for themselves.
  CHECK(overlap(Dim(0, 0), Dim(10, 2), Dim(6, 1), Dim(10, 5)) == std::pair(Dim(6, 1), Dim(4, 1)));
}

TEST_CASE("a mesh names the neighbours that share a copy and the ranks that hold the same slice") {
  const Mesh mesh = Mesh::of(6, 12, 4);  // three replicas of four shards; rank 6 is shard 2 of replica 1
  CHECK(mesh.shards.rank(0) == 4);
  CHECK(mesh.shards.rank(3) == 7);
  CHECK(mesh.shards.me == 2);
  CHECK(mesh.replicas.rank(0) == 2);
  CHECK(mesh.replicas.rank(2) == 10);
  CHECK(mesh.replicas.me == 1);
  CHECK(mesh.world.size == 12);
}

TEST_CASE("quantities have the units that people write, and nothing else") {
  CHECK(parse_quantity("25MB", Measure::bytes) == 25e6);
  CHECK(parse_quantity("1.5 GiB", Measure::bytes) == 1.5 * 1024 * 1024 * 1024);
  CHECK(parse_quantity("400Gbps", Measure::bytes_per_second) == 50e9);
  CHECK(parse_quantity("3350GBps", Measure::bytes_per_second) == 3.35e12);
  CHECK(parse_quantity("5us", Measure::seconds) == 5 * 1e-6);
  CHECK(parse_quantity("989Tf", Measure::flops_per_second) == 989e12);
  for (const char* wrong : {"", "MB", "25 apples", "25mb", "1e999B", "nan", "inf", "0x10", "25MBps"})
    CHECK_THROWS(parse_quantity(wrong, Measure::bytes));
}

TEST_CASE("neighbouring visits to one unit are one turn, and a tied embedding's unit comes twice") {
  const auto in_words = [](const Model& model, Cut how) {
    std::string text;
    for (const Turn& turn : turns(model, cut(model, how, 1, 4)))
      text += std::to_string(turn.unit) + "[" + std::to_string(turn.first) + "," + std::to_string(turn.last) + ") ";
    return text;
  };
  CHECK(in_words(Sizes{10, 20, 30}, {Cut::Kind::layer, 0}) == "0[0,1) 1[1,2) 2[2,3) ");
  CHECK(in_words(Sizes{10, 20, 30}.tied(), {Cut::Kind::layer, 0}) == "0[0,1) 1[1,2) 2[2,3) 0[3,4) ");
  CHECK(in_words(Sizes{10, 20, 30}.tied(), {Cut::Kind::whole, 0}) == "0[0,4) ");
  CHECK(in_words(Sizes{10, 20, 30}.tied(), {Cut::Kind::bucket, 200}) == "0[0,1) 1[1,3) 0[3,4) ");
}
