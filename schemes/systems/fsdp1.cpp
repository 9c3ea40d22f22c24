// fsdp1: its options, and how parameters become flat ones and shards.
#include "systems/fsdp1.h"

#include "systems/wrapping.h"

namespace shardsim {

std::vector<Option> Fsdp1::options() {
  using Kind = Option::Kind;
  const std::vector<std::string> types{"None", "bf16", "fp32"};
  return {
      {.name = "sharding_strategy",
       .standard = "FULL_SHARD",
       .about = "FULL_SHARD frees parameters after forward, SHARD_GRAD_OP keeps them, NO_SHARD cuts nothing; HYBRID_SHARD and "
                "_HYBRID_SHARD_ZERO2 are the first two within mesh.shards ranks",
       .words = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"}},
      {.name = "auto_wrap_policy",
       .standard = "transformer_auto_wrap_policy",
       .about = "a unit per block and one for the root, by size, or the root alone (None, which is PyTorch's own default)",
       .words = {"transformer_auto_wrap_policy", "size_based_auto_wrap_policy", "None"}},
      {.name = "min_num_params",
       .kind = Kind::integer,
       .standard = "1e8",
       .about = "size_based_auto_wrap_policy: parameters from which on a module is a unit",
       .low = 1},
      {.name = "backward_prefetch",
       .standard = "BACKWARD_PRE",
       .about = "the next unit is gathered before this one's backward, after it, or when its turn has come (None)",
       .words = {"BACKWARD_PRE", "BACKWARD_POST", "None"}},
      {"forward_prefetch", Kind::boolean, "false", "the next unit is gathered before this one's forward, from the second pass on"},
      {"limit_all_gathers", Kind::boolean, "true",
       "once two freed units are queued, the host waits for the older one before it gathers another"},
      {"use_orig_params", Kind::boolean, "false",
       "the optimizer sees the parameters, not the flat ones; they begin at multiples of 16 bytes"},
      {.name = "param_dtype",
       .standard = "None",
       .about = "MixedPrecision: type of gathers and of compute; None: the scenario's precision.param, and nothing else fits. With "
                "an fp32 master the shards are the master",
       .words = types},
      {.name = "reduce_dtype",
       .standard = "None",
       .about = "MixedPrecision: type of the reduction; None: the scenario's precision.reduce",
       .words = types},
      {.name = "buffer_dtype",
       .standard = "None",
       .about = "MixedPrecision: type of buffers; the models' keep their own",
       .words = {"None"}},
      {"keep_low_precision_grads", Kind::boolean, "false",
       "MixedPrecision: after backward gradients have param_dtype, for an optimizer that takes it"},
      {"cast_forward_inputs", Kind::boolean, "false",
       "MixedPrecision: units' inputs become param_dtype; the models here have no others, so nothing is left to cast"},
      {"cast_root_forward_inputs", Kind::boolean, "true", "the same of the root's"},
      {"no_sync", Kind::boolean, "false",
       "micro-batches but the last run under no_sync(): gradients stay whole until the last one"},
      {"sync_module_states", Kind::boolean, "false", "broadcasts parameters before the first step; not modelled"},
      {"offload_params", Kind::boolean, "false", "CPUOffload: shards live in the host's memory; not modelled"}};
}

Fsdp1::Fsdp1(const Options& options) : options_(options) {
  for (const char* name : {"sync_module_states", "offload_params"})
    if (options.boolean(name)) throw std::invalid_argument(std::string(name) + ": is not modelled; use false");
  const std::string& strategy = options.text("sharding_strategy");
  sharded_ = strategy != "NO_SHARD";
  hybrid_ = strategy == "HYBRID_SHARD" || strategy == "_HYBRID_SHARD_ZERO2";
  reshards_after_forward_ = strategy == "FULL_SHARD" || strategy == "HYBRID_SHARD";
  if (options.given("min_num_params") && options.text("auto_wrap_policy") != "size_based_auto_wrap_policy")
    throw std::invalid_argument("min_num_params: belongs to auto_wrap_policy: size_based_auto_wrap_policy; remove it");
  const std::string& prefetch = options.text("backward_prefetch");
  backward_prefetch_ = prefetch == "None" ? Prefetch::none : prefetch == "BACKWARD_PRE" ? Prefetch::pre : Prefetch::post;
  forward_prefetch_ = options.boolean("forward_prefetch");
  limits_ = options.boolean("limit_all_gathers");
  orig_params_ = options.boolean("use_orig_params");
  no_sync_ = options.boolean("no_sync");
  keeps_low_precision_ = options.boolean("keep_low_precision_grads");
}

void Fsdp1::read_scenario() {
  const Precision& precision = knobs().precision;
  types_ = MixedPrecision::of(precision, options_);
  if (const std::string wrong = types_.contradiction(options_, {"param_dtype"}); !wrong.empty()) refuse(wrong);
  if (precision.grad != types_.compute)
    refuse("precision.grad: autograd's gradients have the parameters' type; write precision: {grad: " +
           std::string(name_of(types_.compute)) + "}");
  if (knobs().decays_matrices_only && knobs().adam.weight_decay != 0 && !options_.boolean("use_orig_params"))
    refuse(
        "optimizer.weight_decay_on: matrices needs parameters that are matrices, and a flat one is a vector; write "
        "use_orig_params: true");

  const int world = rank().world, shards = knobs().shards;
  if (hybrid_ && world > 1 && shards < 2)
    refuse(options_.text("sharding_strategy") +
           (shards == 0
                ? " needs to know how many ranks share a copy; write mesh: {replicas: R, shards: S}"
                : ": PyTorch falls back to NO_SHARD within groups of one rank, and the replicas drift apart (pytorch#154888); "
                  "write NO_SHARD"));
  // PyTorch too does this, and warns of it.
  if (world == 1) sharded_ = hybrid_ = reshards_after_forward_ = false;
  mesh_ = Mesh::of(rank().index, world, !sharded_ ? 1 : sharers(knobs(), world));
  // Half of the division is done before the sum and half after it, so that fp16 neither overflows nor underflows.
  while (world % int(predivide_) == 0 && world / predivide_ > predivide_) predivide_ *= 2;
  postdivide_ = world / predivide_;
}

void Fsdp1::make_handles() {
  const auto& tree = modules();
  const std::string& policy = options_.text("auto_wrap_policy");
  Wrapped wrapped{0};
  if (policy == "transformer_auto_wrap_policy") wrapped = wrapped_by_block(tree);
  if (policy == "size_based_auto_wrap_policy") {
    std::vector<std::int64_t> counts;
    for (const Parameter& parameter : parameters()) counts.push_back(parameter.count().charged());
    wrapped = wrapped_by_size(tree, counts, options_.integer("min_num_params"));
  }
  std::vector<int> places = places_of(wrapped, tree.size());
  std::vector<std::vector<int>> members(wrapped.size());
  for (int p = 0; p < int(parameters().size()); ++p) {
    const int first = unit_around(parameters()[std::size_t(p)].module, tree, places);
    members[std::size_t(first)].push_back(p);
    for (int m = 0; m < int(tree.size()); ++m)
      for (const int used : tree[std::size_t(m)].parameters)
        if (used == p && unit_around(m, tree, places) != first)
          refuse("the tied parameter " + parameters()[std::size_t(p)].name +
                 " would be in two units, and FSDP takes it in one only; use another auto_wrap_policy or min_num_params");
  }
  handles_by_module_.assign(tree.size(), -1);
  places_.resize(parameters().size());
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    if (members[i].empty()) continue;
    handles_by_module_[std::size_t(wrapped[i])] = int(handles_.size());
    for (std::size_t k = 0; k < members[i].size(); ++k) places_[std::size_t(members[i][k])] = {int(handles_.size()), k};
    handles_.emplace_back();
    handles_.back().parameters = members[i];
  }
}

/// With use_orig_params every parameter begins at a multiple of 16 bytes, and the shards are equal without further padding.
void Fsdp1::lay_out(Handle& handle) const {
  std::vector<Dim> counts;
  std::vector<int> places;
  std::int64_t at = 0;
  const auto pad_to = [&](std::int64_t multiple) {
    if (!orig_params_ || at % multiple == 0) return;
    counts.push_back(Dim(multiple - at % multiple, 0));
    at += counts.back().charged();
  };
  for (const int p : handle.parameters) {
    pad_to(16 / bytes_of(types_.compute));
    places.push_back(int(counts.size()));
    counts.push_back(parameters()[std::size_t(p)].count());
    at += counts.back().charged();
  }
  pad_to(sharded_ ? mesh_.shards.size : rank().world);
  const Image image(counts);
  const int n = mesh_.shards.size;
  handle.count = image.count();
  handle.borders = image.slices((at + n - 1) / n * n, n);
  const Dim mine = (*handle.borders)[std::size_t(mesh_.shards.me)];
  const Dim size = (*handle.borders)[std::size_t(mesh_.shards.me) + 1] - mine;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Dim begin = image.begin(places[i]);
    handle.begins.push_back(begin);
    const auto [from, count] = overlap(begin, counts[std::size_t(places[i])], mine, size);
    if (count.charged() > 0) handle.own.push_back({handle.parameters[i], from - begin, count, from - mine});
  }
  if (orig_params_)
    for (const Own& own : handle.own) handle.slices.push_back({own.at, own.count, own.parameter, {}, {}});
  else handle.slices = {{none, size, int(&handle - handles_.data()), {}, {}}};
}

void Fsdp1::fill(Handle& handle) {
  const std::size_t me = std::size_t(mesh_.shards.me);
  handle.shard = alloc(Lane::compute, Band::param, (*handle.borders)[me + 1] - (*handle.borders)[me], types_.original);
  for (const Own& own : handle.own) upload_theta0(handle.shard.slice(own.at, own.count), own.parameter, own.begin, own.count);
  for (Slice& slice : handle.slices)
    for (Tensor* moment : {&slice.m, &slice.v}) {
      *moment = alloc(Lane::compute, Band::opt, slice.count, Dtype::fp32);
      device().upload(Lane::compute, *moment, HostView{&rank().theta0, none, none});
    }
}

void Fsdp1::make_bands() {
  read_scenario();
  make_handles();
  for (Handle& handle : handles_) {
    label(Verb::bind, int(&handle - handles_.data()));
    lay_out(handle);
    fill(handle);
  }
}

Tensor Fsdp1::parameter(int p) {
  const Parameter& parameter = parameters()[std::size_t(p)];
  const auto& [handle, place] = places_[std::size_t(p)];
  const Handle& h = handles_[std::size_t(handle)];
  const Tensor& flat = sharded_ ? h.full_param : h.mp_shard ? h.mp_shard : h.shard;
  return flat.matrix(h.begins[place], parameter.rows, parameter.cols);
}

void Fsdp1::append_theta(std::vector<ThetaPiece>& pieces) {
  std::size_t count = 0, next = 0;
  for (const Handle& handle : handles_) count += handle.own.size();
  pieces.resize(count);
  for (const Handle& handle : handles_)
    for (const Own& own : handle.own) {
      pieces[next] = {own.parameter, own.begin, own.count, {}};
      device().download(Lane::compute, handle.shard.slice(own.at, own.count), pieces[next++].values);
    }
}

}  // namespace shardsim
