// Remedy: each knob's arithmetic, on the composition of the peak.
#include "app/remedy.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "app/metrics.h"
#include "app/scenario_schemes.h"
#include "app/table.h"
#include "core/formulas.h"

namespace shardsim {
namespace {

using formats::Figures;

/// What the estimates start from.
class Estimate {
 public:
  Estimate(const Scenario& scenario, const SchemeResult& result, const Figures& f)
      : scenario_(scenario), knobs_(scenario.knobs), result_(result), f_(f), units_(result.unit_parameters) {
    std::sort(units_.rbegin(), units_.rend());
    for (int band = 0; band < band_count; ++band)
      held_[band] = double(f.allocator.emulated ? f.allocator.bands[band] : f.peak.of(Band(band)));
    for (const Part& part : f.resident)
      if (part.band == Band::grad) resident_grad_ += double(part.bytes);
  }

  std::vector<Remedy> all() {
    allocator();
    attention();
    budgets();
    gradients();
    sharding();
    smaller_batch();
    recomputation();
    smaller_buckets();
    one_stream();
    std::stable_sort(found_.begin(), found_.end(), [](const Remedy& a, const Remedy& b) { return a.cost < b.cost; });
    return std::move(found_);
  }

 private:
  double held(Band band) const { return held_[unsigned(band)]; }
  /// Elements of the `count` largest units.
  double largest(int count) const {
    const auto end = units_.begin() + std::min(count == unlimited ? int(units_.size()) : count, int(units_.size()));
    return double(std::accumulate(units_.begin(), end, std::int64_t{0}));
  }
  static int one_more(int budget) { return budget == unlimited ? unlimited : budget + 1; }
  double gathered_bytes(int budget) const { return largest(one_more(budget)) * double(bytes_of(knobs_.precision.param)); }
  double gradient_bytes(int budget) const { return largest(one_more(budget)) * double(bytes_of(knobs_.precision.grad)); }
  double traffic(ShardSet shard, int accumulation) const {
    return formulas::traffic_units(shard, knobs_.precision, accumulation, result_.world, shard.empty() ? 1 : shards());
  }
  int shards() const { return result_.shard.empty() ? result_.world : result_.shards; }

  void add(const std::string& knob, double saved, double cost, const std::string& at) {
    if (saved > 0.01 * double(f_.needed_bytes()))
      found_.push_back({knob, double(f_.needed_bytes()) - saved, std::max(0.0, cost), at});
  }
  void add_at_traffic(const std::string& knob, double saved, ShardSet shard, int accumulation) {
    const double now = traffic(result_.shard, knobs_.accumulation), then = traffic(shard, accumulation);
    add(knob, saved, now > 0 ? then / now - 1 : 0,
        then == now ? "at the same traffic" : "traffic " + decimal_text(now) + " -> " + decimal_text(then));
  }

  /// Segments that grow let what is cached serve any size of its stream.
  void allocator() {
    if (!f_.allocator.emulated || scenario_.memory.options.expandable_segments) return;
    add("memory.expandable_segments: on", double(f_.allocator.reserved - f_.allocator.expandable), 0, "less fragmentation");
  }

  /// At least the softmax's output, sequence x sequence per head, is no longer kept.
  void attention() {
    if (!scenario_.transformer || scenario_.transformer->plan.flash_attention) return;
    const TransformerChoice& choice = *scenario_.transformer;
    const double scores =
        double(scenario_.micro_batch) * double(choice.shape.heads) * double(choice.sequence) * double(choice.sequence);
    add("model.attention: flash", std::min(held(Band::activation), scores * choice.shape.layers * double(bytes_of(type()))), 0,
        "and faster");
  }

  /// Loans beyond the one unit in use. What a scheme keeps on purpose is beyond the budget, and stays.
  void budgets() {
    const double gathered = held(Band::gathered), loans = held(Band::grad) - resident_grad_;
    if (knobs_.prefetch > 0 && gathered <= gathered_bytes(knobs_.prefetch) * 1.01)
      add("prefetch: 0", gathered - gathered_bytes(0), 0, "less overlap");
    if (knobs_.unreduced > 0 && result_.shard.has(Band::grad)) add("unreduced: 0", loans - gradient_bytes(0), 0, "less overlap");
  }

  /// Gradients come as activations go, so of the two only the larger one counts, but for the unit at hand: it has both. Not if they
  /// wait for another micro-batch.
  void gradients() {
    if (knobs_.grads_resident && knobs_.accumulation == 1)
      add("grads: transient", std::min(resident_grad_, held(Band::activation)) - gradient_bytes(0), 0, "at no cost");
  }

  /// A band of which only a slice is kept leaves 1/n of itself, and loans of full units where it is needed in full.
  void sharding() {
    const double n = result_.world;
    if (n == 1 || (!result_.shard.empty() && result_.shards < result_.world)) return;
    ShardSet shard = result_.shard;
    double saved = 0;
    const auto stage = [&](const char* name, Band band, ShardSet next, double loans) {
      if (shard.has(band)) return;
      shard = next;
      saved += held(band) * (1 - 1 / n) - loans;
      add_at_traffic("scheme " + std::string(name), saved, shard, knobs_.accumulation);
    };
    stage("zero1", Band::opt, {Band::opt}, 0);
    stage("zero2", Band::grad, {Band::opt, Band::grad}, gradient_bytes(knobs_.unreduced));
    stage("zero3", Band::param, {Band::opt, Band::grad, Band::param}, gathered_bytes(knobs_.prefetch));
  }

  /// The same rows per step in more micro-batches: activations shrink with them. As many as it takes, or as there can be.
  void smaller_batch() {
    std::int64_t parts = 1;
    double saved = 0;
    while (scenario_.micro_batch % (2 * parts) == 0 && double(f_.needed_bytes()) - saved > double(f_.gpu_memory)) {
      parts *= 2;
      saved = held(Band::activation) * (1 - 1 / double(parts));
      // Transient gradients would have to wait for the last micro-batch.
      const double all = gradient_bytes(unlimited) / (result_.shard.has(Band::grad) ? shards() : 1);
      if (!knobs_.grads_resident) saved -= std::max(0.0, all - held(Band::grad));
    }
    const int accumulation = int(knobs_.accumulation * parts);
    add_at_traffic(
        "batch: {micro: " + std::to_string(scenario_.micro_batch / parts) + ", accumulation: " + std::to_string(accumulation) + "}",
        saved, result_.shard, accumulation);
  }

  /// Every layer keeps its input only; while one is computed anew it has all of its activations.
  void recomputation() {
    if (!scenario_.transformer || scenario_.transformer->plan.recompute.kind == Recompute::Kind::full) return;
    const TransformerChoice& choice = *scenario_.transformer;
    const double tokens = double(scenario_.micro_batch) * double(choice.sequence), layers = choice.shape.layers;
    const double input = tokens * double(choice.shape.hidden) * double(bytes_of(type()));
    double of_layers = held(Band::activation) - tokens * double(choice.shape.vocab) * 4;  // but for the logits, at most in fp32
    if (knobs_.units.kind == Cut::Kind::layer) {                                          // blocks are units 1 to L
      of_layers = 0;
      for (const Part& part : f_.peak.parts)
        if (part.band == Band::activation && part.unit >= 1 && part.unit <= choice.shape.layers) of_layers += double(part.bytes);
    }
    add("model.recompute: full", of_layers - layers * input - of_layers / layers, 1.0 / 3, "a third more compute");
  }

  /// A system's buckets hold at least its largest parameter; what lies in them beyond that, options say.
  void smaller_buckets() {
    const SchemeChoice* choice = find_choice(scenario_.schemes, result_.scheme);
    std::string sizes;
    for (const Option& option : choice ? choice->entry.options : std::vector<Option>{})
      if (option.name.find("bucket_size") != std::string::npos || option.name.find("bucket_cap") != std::string::npos)
        sizes += (sizes.empty() ? "a smaller " : " or ") + option.name;
    if (!sizes.empty())
      add(sizes, held(Band::bucket) - largest(1) * double(bytes_of(type())), 0, "at best; more, smaller messages");
  }

  /// On one stream, a block is free again at once; but nothing overlaps.
  void one_stream() {
    if (f_.allocator.awaiting == 0 || knobs_.streams == 1) return;
    std::vector<Interval> collectives;
    for (const Span& span : result_.ranks.front().spans)
      if (span.op == Span::collective && span.begin >= 0) collectives.push_back({span.begin, span.end});
    const double step = f_.step_seconds.max,
                 sum = f_.compute_seconds.max + covered(std::move(collectives)) / std::max(1, result_.steps);
    add("streams: 1", double(f_.allocator.awaiting), step > 0 ? sum / step - 1 : 0, "nothing overlaps");
  }

  Dtype type() const { return knobs_.precision.param; }

  const Scenario& scenario_;
  const Knobs& knobs_;
  const SchemeResult& result_;
  const Figures& f_;
  std::vector<std::int64_t> units_;  // parameters, the largest first
  std::array<double, band_count> held_{};
  double resident_grad_ = 0;
  std::vector<Remedy> found_;
};

std::string composition(const Figures& f) {
  std::string text;
  const auto term = [&text](std::int64_t bytes, const std::string& name) {
    if (bytes > 0) text += (text.empty() ? "" : " + ") + bytes_text(double(bytes)) + " " + name;
  };
  for (int band = 0; band < band_count; ++band)
    term(f.allocator.emulated ? f.allocator.bands[band] : f.peak.of(Band(band)), name_of(Band(band)));
  term(f.allocator.awaiting, "freed but in use on another stream");
  term(f.allocator.cached, "cached");
  return text;
}

/// What the GPU would have to hold.
std::string gpu_misfit_text(const Scenario& scenario, const SchemeResult& result, const Figures& f) {
  const AllocatorBooks& books = f.allocator;
  std::string text = f.scheme + " does not fit: ";
  if (books.emulated) text += bytes_text(double(books.reserved)) + " reserved";
  else text += "its peak of " + bytes_text(double(f.peak_bytes.max));
  if (books.outside > 0) text += " and " + bytes_text(double(books.outside)) + " outside (context and communicators)";
  text += std::string(books.outside > 0 ? " are" : " is") + " more than the " + bytes_text(double(f.gpu_memory)) + " of a " +
          f.gpu + ".";
  if (books.out_of_memory > 0)
    text += " The first request that found no room was for " + bytes_text(double(books.out_of_memory)) +
            "; the run went on without a limit.";
  text += " At the peak: " + composition(f) + ".";
  std::string others;
  for (const Remedy& remedy : Estimate(scenario, result, f).all()) {
    if (remedy.bytes <= double(f.gpu_memory))
      return text + " Cheapest remedy: " + remedy.knob + " (about " + bytes_text(remedy.bytes) + ", " + remedy.at + ").";
    others += (others.empty() ? "" : ", ") + remedy.knob + " (about " + bytes_text(remedy.bytes) + ")";
  }
  if (others.empty()) return text + " None of the knobs that are estimated here would save 1 %.";
  return text + " None of these alone would do: " + others + ".";
}

/// What the host would have to hold.
std::string host_misfit_text(const Scenario& scenario, const Figures& f) {
  std::string parts, knobs;
  for (int band = 0; band < band_count; ++band)
    if (const std::int64_t bytes = f.host_peak.of(Band(band)); bytes > 0)
      parts += (parts.empty() ? "" : " + ") + bytes_text(double(bytes)) + " " + name_of(Band(band));
  const SchemeChoice* choice = find_choice(scenario.schemes, f.scheme);
  for (const Option& option : choice ? choice->entry.options : std::vector<Option>{})
    if (option.name.starts_with("offload_") && choice->options.text(option.name) != option.standard)
      knobs += (knobs.empty() ? "; without " : " or ") + option.name;
  return f.scheme + " does not fit: its peak of " + bytes_text(double(f.host_peak.bytes)) +
         " in the host's memory is more than the " + bytes_text(double(f.host_memory)) +
         " that each GPU has of its node's. At the peak: " + parts + ". More ranks share it among more nodes" + knobs +
         (knobs.empty() ? "." : " the GPUs would have to hold it.");
}

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, const SchemeResult& result, const Figures& f) {
  return Estimate(scenario, result, f).all();
}

std::string misfit_text(const Scenario& scenario, const SchemeResult& result, const Figures& f) {
  if (f.fits_gpu()) return host_misfit_text(scenario, f);
  if (!f.fits_host()) return gpu_misfit_text(scenario, result, f) + " " + host_misfit_text(scenario, f);
  return gpu_misfit_text(scenario, result, f);
}

}  // namespace shardsim
