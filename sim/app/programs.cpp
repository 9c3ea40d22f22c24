// Programs: a device and a fabric that write down, as one number, what they are asked to do.
#include "app/programs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>

#include "core/error.h"
#include "core/touch.h"
#include "cost/price.h"

namespace shardsim {
namespace {

/// FNV-1a over what a program does, in order.
class Digest {
 public:
  template <class... Values>
  void add(Values... values) {
    (mix(std::uint64_t(values)), ...);
  }
  void add(double value) { mix(std::bit_cast<std::uint64_t>(value)); }
  void add(const Tensor& t) { add(t.rows.charged(), t.cols.charged(), t.dtype(), t.in->place, t.in->band); }
  std::uint64_t value() const { return hash_; }

 private:
  void mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 1099511628211u, hash_ ^= hash_ >> 29; }
  std::uint64_t hash_ = 14695981039346656037u;
};

struct Program {
  Digest digest;
  std::vector<Programs::Use> groups;
};

/// A GPU on which every fact counts and no two are alike: ops on equal tensors that have one price here have one on every GPU.
Gpu telling_gpu() {
  Gpu gpu;
  for (std::size_t i = 0; i < cost::facts().size(); ++i) {
    const cost::Fact& fact = cost::facts()[i];
    fact.set(gpu, fact.low + std::fmod(0.618034 * double(i + 1), 1) * (std::min(fact.high, 100.0) - fact.low));
  }
  return gpu;
}

class NotingDevice final : public Device {
 public:
  NotingDevice(int rank, Program& program) : Device(rank, false), program_(program), gpu_(telling_gpu()) {}
  double now() const override { return 0; }

 private:
  void note(int what, Lane lane) { program_.digest.add(what, lane, label().verb, label().unit); }
  Storage* do_alloc(Lane lane, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) override {
    if (free_.empty()) free_.push_back(&storages_.emplace_back());
    Storage* storage = free_.back();
    free_.pop_back();
    *storage = {.count = count, .dtype = type, .band = band, .life = storage->life, .bytes = bytes, .place = place, .history = {}};
    note(1, lane), program_.digest.add(band, count.charged(), type, bytes, place);
    return storage;
  }
  void do_free(Lane lane, Storage* storage) override {
    note(2, lane), program_.digest.add(storage->bytes);
    free_.push_back(storage);
  }
  void do_launch(Lane lane, const Op& op) override {
    const cost::Price price = cost::price(gpu_, op);
    note(3, lane), program_.digest.add(op.index(), price.kernels), program_.digest.add(price.seconds);
    const auto each = [this](const Tensor& tensor, bool, bool) { program_.digest.add(tensor); };
    std::visit([&](const auto& o) { touch(o, each); }, op);
  }
  Event do_record(Lane lane) override { return {lane, ++recorded_}; }
  void do_wait(Lane lane, Event event) override { note(4, lane), program_.digest.add(event.lane, event.at); }
  void do_synchronize() override { note(5, Lane::compute); }
  void do_synchronize(Event event) override { note(6, event.lane), program_.digest.add(event.at); }
  void do_upload(Lane lane, Tensor, HostView) override { note(7, lane); }
  void do_download(Lane lane, Tensor, std::vector<float>&) override { note(8, lane); }
  void do_stamp(Lane lane, double&) override { note(9, lane); }

  Program& program_;
  const Gpu gpu_;
  std::deque<Storage> storages_;
  std::vector<Storage*> free_;
  std::uint64_t recorded_ = 0;
};

bool same(const Group& a, const Group& b) { return a.first == b.first && a.stride == b.stride && a.size == b.size; }

class NotingFabric final : public Fabric {
 public:
  NotingFabric(Device& device, IssueOrder& order, Program& program) : Fabric(device, order), program_(program) {}

 private:
  void enqueue(const Collective& c) override {
    std::vector<Programs::Use>& groups = program_.groups;
    const auto known = std::find_if(groups.begin(), groups.end(), [&c](const auto& use) { return same(use.group, c.group); });
    program_.digest.add(10, c.verb, c.lane, known - groups.begin(), c.group.size, c.bytes(), c.sent_bytes(), c.payload);
    program_.digest.add(c.label.verb, c.label.unit);
    Programs::Use& use = known == groups.end() ? groups.emplace_back(Programs::Use{c.group}) : *known;
    use.in_pairs |= c.verb == Verb::all_to_all;
  }
  Program& program_;
};

/// What the rank does in the whole run; `mesh` is filled if the scheme says that all ranks do the same.
Program program_of(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, int rank,
                   std::optional<Mesh>& mesh) {
  Program program;
  NotingDevice device(rank, program);
  IssueOrder order;  // of its own: that ranks agree is the run's to say
  NotingFabric fabric(device, order, program);
  const std::unique_ptr<Model> model = set.model(device, rank);
  const std::unique_ptr<Scheme> scheme = choice.make();
  Rank own{device, fabric, *model, scenario.knobs, set.theta0(), choice.label, rank, scenario.world};
  scheme->bind(own);
  StepReport report;
  for (int step = 0; step < scenario.steps; ++step) scheme->run_step(step, report);
  if (scheme->is_even()) mesh = scheme->mesh();
  return program;
}

/// Of an even scheme: every rank's groups are where rank 0's are in its mesh. False if one is not in the mesh.
bool add_even(const Scenario& scenario, const Program& first, const Mesh& mesh, Programs& programs) {
  std::vector<Group Mesh::*> places;
  for (const Programs::Use& use : first.groups) {
    const auto is = [&](Group Mesh::*place) { return same(use.group, mesh.*place); };
    Group Mesh::*const all[] = {&Mesh::world, &Mesh::replicas, &Mesh::shards};
    const auto found = std::find_if(std::begin(all), std::end(all), is);
    if (found == std::end(all)) return false;
    places.push_back(*found);
  }
  programs.of_rank.assign(std::size_t(scenario.world), first.digest.value());
  for (int rank = 0; rank < scenario.world; ++rank) {
    const Mesh own = Mesh::of(rank, scenario.world, mesh.shards.size);
    std::vector<Programs::Use>& groups = programs.groups.emplace_back(first.groups);
    for (std::size_t i = 0; i < places.size(); ++i) groups[i].group = own.*places[i];
  }
  return true;
}

std::string refusal(const Scenario& scenario) {
  if (scenario.numerics != Numerics::off) return "with numerics every rank has a loss of its own; write numerics: off";
  if (scenario.fabric == Fidelity::ring) return "fabric: ring sends every rank's messages; write coupled or formula";
  if (!scenario.simgrid_tracing.empty()) return "SimGrid's tracing wants every rank";
  return {};
}

}  // namespace

FoldingPlan plan_folding(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  if (scenario.folds == Folds::all) return {};
  const auto no = [&](const std::string& why) -> FoldingPlan {
    if (scenario.folds == Folds::folded)
      throw ScenarioError(scenario.file.string() + ": ranks: folded: " + choice.label + ": " + why + ", or ranks: all");
    return {nullptr, why};
  };
  if (const std::string why = refusal(scenario); !why.empty()) return no(why);
  const auto programs = std::make_shared<Programs>();
  try {
    std::optional<Mesh> mesh;
    const Program first = program_of(scenario, set, choice, 0, mesh);
    if (mesh && add_even(scenario, first, *mesh, *programs)) return {programs, {}};
    for (int rank = 0; rank < scenario.world; ++rank) {
      Program program = program_of(scenario, set, choice, rank, mesh);
      programs->of_rank.push_back(program.digest.value());
      programs->groups.push_back(std::move(program.groups));
    }
  } catch (const IllegalStep&) {
    return {};  // the run tells it, with its step and its rank
  }
  return {programs, {}};
}

}  // namespace shardsim
