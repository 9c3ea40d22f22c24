// Scenarios: what a good one means, and the line with which each bad one is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "app/scenario_schemes.h"
#include "app/scenarios.h"
#include "core/scheme.h"

using namespace shardsim;
using test::scenario_text;

TEST_CASE("a scenario with only what it needs gets the documented defaults, and says so") {
  const test::ScenarioFolder folder;
  const Scenario s = folder.read(scenario_text());
  CHECK(s.name == "s");
  CHECK(labels(s.schemes) == "dp, zero3");
  CHECK(s.platform == folder.folder() / "box.xml");
  CHECK(s.world == 2);
  CHECK(s.model.widths == std::vector<std::int64_t>{3, 2});
  CHECK(s.micro_batch == 1);
  CHECK(s.knobs.streams == 2);
  CHECK(s.knobs.prefetch == 1);
  CHECK(s.knobs.unreduced == 1);
  CHECK(s.knobs.grads_resident);
  CHECK(s.knobs.step_barrier);
  CHECK(s.knobs.units.kind == Cut::Kind::layer);
  CHECK(s.backend == "simgrid");
  CHECK(s.fabric == Fidelity::coupled);
  CHECK(s.checks_hazards);
  CHECK(s.recorded_ranks == 8);
  CHECK(std::count(s.defaults_used.begin(), s.defaults_used.end(), "streams: 2") == 1);
  CHECK(std::count(s.defaults_used.begin(), s.defaults_used.end(), "batch.micro: 1") == 1);
}

TEST_CASE("every key is read") {
  const test::ScenarioFolder folder;
  const Scenario s = folder.read(scenario_text(
      "name: all of it\n"
      "data: {x: x.npy, y: y.npy}\n"
      "batch: {micro: 4, accumulation: 3}\n"
      "precision: {param: bf16, reduce: fp32}\n"
      "optimizer: {name: adamw, lr: 1e-3, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.1, clip: 1.5}\n"
      "units: {bucket: 25MB}\nstreams: 3\nprefetch: unlimited\nunreduced: 0\ngrads: transient\nstep_barrier: off\n"
      "numerics: off\nsteps: 5e1\nseed: 18446744073709551615\nbackend: threads\nfabric: ring\nlatency: nccl\nhazards: off\n"
      "record: {ranks: 2}\n"
      "expect:\n  zero3: {traffic: 3, peak_bytes: 1.5KiB, step_seconds: {about: 5us, within: 2%}}\n  theta: equal\n"));
  CHECK(s.name == "all of it");
  CHECK(s.data.x == folder.folder() / "x.npy");
  CHECK(s.micro_batch == 4);
  CHECK(s.knobs.accumulation == 3);
  CHECK(s.knobs.precision.param == Dtype::bf16);
  CHECK(s.knobs.precision.grad == Dtype::bf16);
  CHECK(s.knobs.precision.reduce == Dtype::fp32);
  CHECK(s.knobs.adam.decoupled);
  CHECK(s.knobs.adam.lr == 1e-3f);
  CHECK(s.knobs.adam.beta1 == 0.8f);
  CHECK(s.knobs.adam.beta2 == 0.95f);
  CHECK(s.knobs.adam.eps == 1e-6f);
  CHECK(s.knobs.adam.weight_decay == 0.1f);
  CHECK(s.knobs.clip == 1.5f);
  CHECK(s.knobs.units.kind == Cut::Kind::bucket);
  CHECK(s.knobs.units.bucket_bytes == 25'000'000);
  CHECK(s.knobs.streams == 3);
  CHECK(s.knobs.prefetch == unlimited);
  CHECK(s.knobs.unreduced == 0);
  CHECK_FALSE(s.knobs.grads_resident);
  CHECK_FALSE(s.knobs.step_barrier);
  CHECK(s.numerics == Numerics::off);
  CHECK(s.steps == 50);
  CHECK(s.seed == 18446744073709551615u);
  CHECK(s.backend == "threads");
  CHECK(s.fabric == Fidelity::ring);
  CHECK(s.latency == Latency::nccl);
  CHECK_FALSE(s.checks_hazards);
  CHECK(s.recorded_ranks == 2);
  CHECK(s.expect_equal_theta);
  const std::vector<Expectation>& expect = s.expect.at("zero3");
  REQUIRE(expect.size() == 3);
  CHECK(expect[1].value == 1536);
  CHECK(expect[2].value == doctest::Approx(5e-6));
  CHECK(expect[2].within == doctest::Approx(0.02));
  CHECK(expect[2].line == 25);
}

TEST_CASE("an override replaces a value, adds a key, and takes lists and maps") {
  const test::ScenarioFolder folder;
  const Scenario s = folder.read(scenario_text("batch: {micro: 4}\n"), {"batch.micro=8", "steps=7", "schemes=[zero1]",
                                                                        "numerics={mode: twin, width: 2}", "optimizer.lr=0.5"});
  CHECK(s.micro_batch == 8);
  CHECK(s.steps == 7);
  CHECK(labels(s.schemes) == "zero1");
  CHECK(s.numerics == Numerics::twin);
  CHECK(s.twin_width == 2);
  CHECK(s.knobs.adam.lr == 0.5f);
  CHECK(labels(folder.read(scenario_text(), {"schemes=dp"}).schemes) == "dp");
}

TEST_CASE("recorded ranks are the first so many, or those of a list") {
  const test::ScenarioFolder folder;
  CHECK(folder.read(test::scenario_text(), {"record.ranks=3"}).recorded_ranks == 3);
  const Scenario s =
      folder.read(test::scenario_text(), {"world=10", "record={ranks: [0, 2, 5-7], spans: on, per_rank: on, gzip: on}"});
  std::vector<int> ranks;
  for (int rank = 0; rank < 10; ++rank)
    if (s.recorded_ranks.has(rank)) ranks.push_back(rank);
  CHECK(ranks == std::vector<int>{0, 2, 5, 6, 7});
  CHECK(s.records_spans);
  CHECK(s.trace_per_rank);
  CHECK(s.trace_gzip);
}

TEST_CASE("the threads backend needs no platform") {
  const test::ScenarioFolder folder;
  CHECK(folder.refusal("schemes: dp\nworld: 1\nbackend: threads\nmodel: {kind: mlp, widths: [3, 2]}\n") == "accepted");
}

TEST_CASE("every bad value is refused in one line that names file, line, key and remedy") {
  const test::ScenarioFolder folder;
  struct Case {
    const char *lines, *message;
  };
  // Line 5 is the first after the good ones.
  const Case cases[] = {
      {"world_size: 8", "s.yaml:5: world_size: unknown key; known keys: name, schemes"},
      {"batch: {mico: 4}", "s.yaml:5: batch.mico: unknown key; known keys: micro, sequence, accumulation"},
      {"world: 3", "s.yaml:5: world: is given twice, first in line 3; remove one"},
      {"batch: {micro: 1, micro: 2}", "s.yaml:5: batch.micro: is given twice, first in line 5"},
      {"batch: {micro: 0}", "s.yaml:5: batch.micro: '0' is out of range; write a whole number from 1"},
      {"batch:\n  micro: -3", "s.yaml:6: batch.micro: '-3' is out of range"},
      {"batch: {micro: 1.5}", "s.yaml:5: batch.micro: '1.5' is not a whole number"},
      {"batch: {micro: four}", "s.yaml:5: batch.micro: 'four' is not a number"},
      {"batch: {micro: \"4\"}", "s.yaml:5: batch.micro: '4' is a text, but a number is expected; remove the quotes"},
      {"batch: {micro: 1e999}", "s.yaml:5: batch.micro: '1e999' is not a number, or too large for one"},
      {"batch: {micro: 99999999999999999999}", "s.yaml:5: batch.micro: '99999999999999999999' is out of range"},
      {"batch: {micro: }", "s.yaml:5: batch.micro: has no value; a number is expected"},
      {"batch: {micro: [4]}", "s.yaml:5: batch.micro: is a list, but a number is expected"},
      {"batch: [4]", "s.yaml:5: batch: is a list, but a map is expected; known keys: micro, sequence, accumulation"},
      {"batch: 4", "s.yaml:5: batch: is '4', but a map is expected"},
      {"batch: {accumulation: 0}", "s.yaml:5: batch.accumulation: '0' is out of range"},
      {"precision: {param: fp8}", "s.yaml:5: precision.param: unknown value 'fp8'; known values: fp32, bf16, fp16"},
      {"precision: {param: fp16, loss_scale: 0}",
       "s.yaml:5: precision.loss_scale: '0' is out of range; it has to be greater than 0"},
      {"precision: {param: fp16, loss_scale: some}", "s.yaml:5: precision.loss_scale: unknown value 'some'"},
      {"precision: {param: fp16, loss_scale: {growth_factor: 1}}",
       "s.yaml:5: precision.loss_scale.growth_factor: '1' is out of range"},
      {"precision: {param: fp16, loss_scale: {backoff: 1}}", "s.yaml:5: precision.loss_scale.backoff: unknown key"},
      {"optimizer: {lr_schedule: linear}", "s.yaml:5: optimizer.lr_schedule: unknown value 'linear'"},
      {"optimizer: {lr_schedule: {warmup_steps: 9, cosine_steps: 9}}", "s.yaml:5: optimizer.lr_schedule.cosine_steps: ends before"},
      {"optimizer: {weight_decay_on: biases}", "s.yaml:5: optimizer.weight_decay_on: unknown value 'biases'"},
      {"mesh: {replicas: 3, shards: 2}", "s.yaml:5: mesh: makes 3 x 2 = 6 ranks"},
      {"mesh: {replicas: 1}", "s.yaml:5: mesh: "},
      {"mesh: {replicas: 0, shards: 8}", "s.yaml:5: mesh.replicas: "},
      {"precision: bf16", "s.yaml:5: precision: is 'bf16', but a map is expected; known keys: param, grad, reduce"},
      {"optimizer: {name: sgd}", "s.yaml:5: optimizer.name: unknown value 'sgd'; known values: adam, adamw"},
      {"optimizer: {lr: 0}", "s.yaml:5: optimizer.lr: '0' is out of range; it has to be greater than 0"},
      {"optimizer: {lr: -1e-3}", "s.yaml:5: optimizer.lr: '-1e-3' is out of range"},
      {"optimizer: {lr: 1e60}", "s.yaml:5: optimizer.lr: '1e60' is out of range"},
      {"optimizer: {lr: 1e-60}", "s.yaml:5: optimizer.lr: '1e-60' is out of range"},
      {"optimizer: {lr: .nan}", "s.yaml:5: optimizer.lr: '.nan' is not a number"},
      {"optimizer: {lr: inf}", "s.yaml:5: optimizer.lr: 'inf' is not a number"},
      {"optimizer: {eps: 0}", "s.yaml:5: optimizer.eps: '0' is out of range; it has to be greater than 0"},
      {"optimizer: {betas: [0.9, 1]}",
       "s.yaml:5: optimizer.betas[1]: '1' is out of range; it has to be at least 0 and less than 1"},
      {"optimizer: {betas: [-0.1, 0.9]}", "s.yaml:5: optimizer.betas[0]: '-0.1' is out of range"},
      {"optimizer: {betas: [0.9]}", "s.yaml:5: optimizer.betas: holds 1 numbers, but 2 are expected"},
      {"optimizer: {betas: 0.9}", "s.yaml:5: optimizer.betas: is '0.9', but a list is expected"},
      {"optimizer: {weight_decay: -1}", "s.yaml:5: optimizer.weight_decay: '-1' is out of range"},
      {"optimizer: {clip: 0}", "s.yaml:5: optimizer.clip: '0' is out of range; it has to be greater than 0"},
      {"units: leyer", "s.yaml:5: units: unknown value 'leyer'; known values: whole, layer, {bucket: 25MB}"},
      {"units: {bucket: 25}", "s.yaml:5: units.bucket: '25' has no unit; write for example 25MB"},
      {"units: {bucket: 25mB}", "s.yaml:5: units.bucket: '25mB' has the unknown unit 'mB'"},
      {"units: {bucket: 5us}", "s.yaml:5: units.bucket: '5us' has the unknown unit 'us'"},
      {"units: {bucket: 0MB}", "s.yaml:5: units.bucket: '0MB' is out of range; write a bucket from 1B to 1024PiB"},
      {"units: {bucket: -1MB}", "s.yaml:5: units.bucket: '-1MB' is out of range"},
      {"units: {}", "s.yaml:5: units: the key 'bucket' is missing"},
      {"streams: 5", "s.yaml:5: streams: '5' is out of range; write a whole number from 1 to 4"},
      {"streams: 0", "s.yaml:5: streams: '0' is out of range"},
      {"prefetch: -1", "s.yaml:5: prefetch: '-1' is out of range"},
      {"prefetch: all", "s.yaml:5: prefetch: unknown value 'all'; write a whole number from 0 on, or unlimited"},
      {"unreduced: 1.5", "s.yaml:5: unreduced: '1.5' is not a whole number"},
      {"grads: sharded", "s.yaml:5: grads: unknown value 'sharded'; known values: resident, transient"},
      {"step_barrier: maybe", "s.yaml:5: step_barrier: unknown value 'maybe'; known values: on, off"},
      {"numerics: on", "s.yaml:5: numerics: unknown value 'on'; known values: full, off, {mode: twin, width: 32}"},
      {"numerics: twin", "s.yaml:5: numerics: a twin needs a width; write it as {mode: twin, width: 32}"},
      {"numerics: {mode: twin}", "s.yaml:5: numerics: the key 'width' is missing"},
      {"numerics: {mode: twin, width: 0}", "s.yaml:5: numerics.width: '0' is out of range"},
      {"steps: 0", "s.yaml:5: steps: '0' is out of range"},
      {"seed: -1", "s.yaml:5: seed: '-1' is no seed; write a whole number from 0 to 18446744073709551615"},
      {"seed: 18446744073709551616", "s.yaml:5: seed: '18446744073709551616' is no seed"},
      {"backend: mpi", "s.yaml:5: backend: unknown value 'mpi'; known values: simgrid, threads, cuda"},
      {"backend: cuda\nnumerics: off", "s.yaml:6: numerics: is for simulated GPUs; backend: cuda measures the whole model"},
      {"backend: cuda\nfabric: ring", "s.yaml:6: fabric: unknown value 'ring'; known values: nccl, loopback"},
      {"backend: cuda\nmemory: {allocator: torch}",
       "s.yaml:6: memory: describes the memory of a simulated GPU, but backend: cuda has none"},
      {"fabric: mesh", "s.yaml:5: fabric: unknown value 'mesh'; known values: ring, coupled, formula"},
      {"latency: 5us", "s.yaml:5: latency: unknown value '5us'; known values: platform, nccl"},
      {"hazards: 1", "s.yaml:5: hazards: unknown value '1'; known values: on, off"},
      {"record: {ranks: 0}", "s.yaml:5: record.ranks: '0' is out of range"},
      {"record: {ranks: [0, 5-8]}", "s.yaml:5: record.ranks[1]: '5-8' is out of range; the ranks of this world are 0 to 1"},
      {"record: {ranks: [3-1]}", "s.yaml:5: record.ranks[0]: '3-1' names no ranks; write a number or a range, as in [0, 1, 8-15]"},
      {"record: {ranks: [-1]}", "s.yaml:5: record.ranks[0]: '-1' names no ranks"},
      {"record: {ranks: []}", "s.yaml:5: record.ranks: is an empty list; write it as ranks: [0, 1, 8-15]"},
      {"record: {gzip: 9}", "s.yaml:5: record.gzip: "},
      {"name: [a]", "s.yaml:5: name: is a list, but a text is expected"},
      {"name: ''", "s.yaml:5: name: is an empty text"},
      {"data: {x: x.npy}", "s.yaml:5: data: the key 'y' is missing; write for example 'data: {x: x.npy, y: y.npy}'"},
      {"data: {x: gone.npy, y: y.npy}", "s.yaml:5: data.x: gone.npy: there is no such file"},
      {"data: {x: y.npy, y: y.npy}", "s.yaml:5: data.x: y.npy: has 2 columns, but the model's input width is 3"},
      {"data: {x: x.npy, y: x.npy}", "s.yaml:5: data.y: x.npy: has 3 columns, but the model's output width is 2"},
      {"data: {x: x.npy, y: y5.npy}", "s.yaml:5: data.y: y5.npy: has 5 rows, but x has 6"},
      {"data: {x: none.npy, y: y.npy}", "s.yaml:5: data.x: none.npy: has no rows"},
      {"data: {x: flat.npy, y: y.npy}", "s.yaml:5: data.x: flat.npy: has shape (18,); 2 dimensions are expected"},
      {"data: {x: box.xml, y: y.npy}", "s.yaml:5: data.x: box.xml: is not a .npy file"},
      {"data: {x: x.npy, y: y.npy}\nnumerics: {mode: twin, width: 2}",
       "s.yaml:5: data.x: files have the full widths, but a twin has smaller"},
      {"data: {teacher: {rows: 0}}", "s.yaml:5: data.teacher.rows: '0' is out of range"},
      {"data: {teacher: {rows: 8}, x: x.npy}", "s.yaml:5: data.teacher: stands beside x or y"},
      {"expect: {zero4: {traffic: 3}}", "s.yaml:5: expect.zero4: unknown key; known keys: theta, dp, zero1, zero3"},
      {"expect: {dp: {trafic: 3}}", "s.yaml:5: expect.dp.trafic: unknown key; known keys: traffic, resident_bytes_per_param"},
      {"expect: {dp: {traffic: three}}", "s.yaml:5: expect.dp.traffic: 'three' is not a number"},
      {"expect: {dp: {traffic: {about: 3}}}", "s.yaml:5: expect.dp.traffic: the key 'within' is missing"},
      {"expect: {dp: {traffic: {about: 3, within: 5}}}",
       "s.yaml:5: expect.dp.traffic.within: '5' is no share; write a number from 0 to 1 or a percentage, as in 0.1 or 10%"},
      {"expect: {theta: same}", "s.yaml:5: expect.theta: unknown value 'same'; known values: equal"},
      {"ranks: folded\nbackend: threads",
       "s.yaml:5: ranks: folded: backend: threads runs every rank; write ranks: all, or use backend: simgrid"},
      {"expect: {dp: 3}", "s.yaml:5: expect.dp: is '3', but a map is expected"},
      {"expect: all", "s.yaml:5: expect: is 'all', but a map is expected"},
  };
  for (const Case& each : cases) {
    INFO(each.lines);
    const std::string message = folder.refusal(scenario_text(std::string(each.lines) + "\n"));
    CHECK_MESSAGE(message.find(each.message) == 0, message);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a batch whose activations could not be counted is refused") {
  const test::ScenarioFolder folder;
  const std::string text = "schemes: dp\nworld: 1\nbackend: threads\nnumerics: off\nbatch: {micro: 2000000000}\n";
  CHECK(folder.refusal(text + "model: {kind: mlp, widths: [400000, 2]}\n") == "accepted");
  CHECK(folder.refusal(text + "model: {kind: mlp, widths: [2000000000, 2]}\n") ==
        "s.yaml:6: model.widths: and batch.micro make an activation of more than 2^50 numbers; choose smaller ones");
}

TEST_CASE("every bad value among the needed keys is refused") {
  const test::ScenarioFolder folder;
  struct Case {
    const char *text, *message;
  };
  const std::string rest = "platform: box.xml\nworld: 2\nmodel: {kind: mlp, widths: [3, 2]}\n";
  const Case schemes[] = {
      {"schemes: [dp, zero4]", "s.yaml:1: schemes[1]: there is no scheme 'zero4'; known schemes: dp, zero1, zero3"},
      {"schemes: []", "s.yaml:1: schemes: is an empty list; write it as [dp, zero1, zero2, zero3]"},
      {"schemes: {dp: 1}", "s.yaml:1: schemes: is a map, but a list is expected"},
      {"schemes: [dp, dp]", "s.yaml:1: schemes[1]: the scheme 'dp' is listed twice"},
      {"schemes: [[dp]]", "s.yaml:1: schemes[0]: is a list, but a name is expected"},
      {"name: x", "s.yaml:1: the key 'schemes' is missing; write for example 'schemes: [dp, zero1, zero2, zero3]'"},
  };
  for (const Case& each : schemes) {
    const std::string message = folder.refusal(std::string(each.text) + "\n" + rest);
    CHECK_MESSAGE(message.find(each.message) == 0, message);
  }
  const Case overrides[] = {
      {"world=0", "--set world: '0' is out of range"},
      {"world=", "--set world: has no value; a number is expected"},
      {"world", "--set 'world': has to be key=value, as in --set batch.micro=4"},
      {"=3", "--set '=3': has to be key=value"},
      {"a..b=3", "--set 'a..b=3': has to be key=value"},
      {"batch.mico=3", "--set batch.mico: unknown key; known keys: micro, sequence, accumulation"},
      {"world.size=3", "--set world.size: world is '2' in s.yaml:3, not a map; set world as a whole"},
      {"batch={micro: ", "--set batch: '{micro: ' is not YAML"},
      {"platform=gone.xml",
       "--set platform: there is no platform file 'gone.xml' beside the scenario, in the current folder or among"},
      {"model=gpt4", "--set model: there is no model 'gpt4'; known models: gpt2, gpt2-medium, gpt2-large, gpt2-xl, llama-7b"},
      {"model=gpt2", "accepted"},
      {"model.kind=gpt", "--set model.kind: unknown value 'gpt'; known values: mlp, gpt2, llama"},
      {"model.kind=gpt2", "s.yaml:4: model.widths: unknown key; known keys: preset, hf_config, kind, layers"},
      {"batch.sequence=8", "--set batch.sequence: a perceptron has no sequence; remove the key"},
      {"model.widths=[3]", "--set model.widths: holds one width, but an input's and an output's are needed"},
      {"model.widths=[3, 0, 2]", "--set model.widths[1]: '0' is out of range"},
      {"model.widths=3", "--set model.widths: is '3', but a list is expected"},
      {"model.widths=[2000000000, 2000000000]", "--set model.widths: make a model of more than 2^50 parameters"},
      {"model.activation=relu", "--set model.activation: unknown value 'relu'; known values: tanh"},
      {"model.loss=ce", "--set model.loss: unknown value 'ce'; known values: mse"},
      {"model.theta0=gone.npy", "--set model.theta0: gone.npy: there is no such file"},
      {"model.theta0=flat.npy", "--set model.theta0: flat.npy: holds 18 numbers, but the model has 8 parameters"},
      {"model.theta0=x.npy", "--set model.theta0: x.npy: has shape (6, 3); 1 dimension is expected"},
      {"model.theta0=theta.npy", "accepted"},
  };
  for (const Case& each : overrides) {
    INFO(each.text);
    const std::string message = folder.refusal(scenario_text(), {each.text});
    CHECK_MESSAGE(message.find(each.message) == 0, message);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("every impossible transformer, twin and text is refused in one line that names line, key and remedy") {
  const test::ScenarioFolder folder;
  struct Case {
    const char *text, *message;
  };
  const Case cases[] = {
      {"model=gpt2", "accepted"},
      {"model={preset: gpt2-large, vocab: 50304, attention: explicit, gelu: written_out, loss: fp32}", "accepted"},
      {"model={kind: llama, layers: 2, hidden: 64, heads: 8, kv_heads: 2, vocab: 100}", "accepted"},
      {"model={kind: gpt2, layers: 2, hidden: 50, heads: 8, vocab: 100}", "--set model.heads: 8 do not divide hidden 50"},
      {"model={kind: llama, layers: 2, hidden: 64, heads: 8, kv_heads: 3, vocab: 100}",
       "--set model.kv_heads: 3 do not divide heads 8"},
      {"model={kind: llama, layers: 2, hidden: 64, heads: 8}", "--set model: the key 'vocab' is missing"},
      {"model={preset: gpt2, swiglu: fused}", "--set model.swiglu: this model has no swiglu; its activation is set by gelu"},
      {"model={preset: gpt2, attention: explicit, hidden_dropout: 0.1, attention_dropout: 0.1, scores_buffer: on}", "accepted"},
      {"model={preset: gpt2, hidden_dropout: 1}", "--set model.hidden_dropout: '1' would drop everything; write a share below 1"},
      {"model={preset: gpt2, attention_dropout: 0.1}", "--set model.attention_dropout: a flash kernel draws its mask twice"},
      {"model={preset: gpt2, scores_buffer: on}",
       "--set model.scores_buffer: a flash kernel has no scores; use attention: explicit"},
      {"model={preset: llama-7b, hidden_dropout: 0.1}", "--set model.hidden_dropout: Llama has no dropout; remove the key"},
      {"model={preset: gpt2, kind: gpt2}", "--set model: has more than one of preset, hf_config and kind; keep one"},
      {"model={preset: gpt2, recompute: some}", "--set model.recompute: unknown value 'some'; known values: none, selective, full"},
      {"model={preset: gpt2, recompute: {every: 0}}", "--set model.recompute.every: '0' is out of range"},
      {"model={hf_config: gone.json}", "--set model.hf_config: gone.json: "},
      {"model={preset: gpt2, theta0: x.npy}", "--set model.theta0: x.npy: has shape (6, 3); 1 dimension is expected"},
      {"model={preset: gpt2, theta0: flat.npy}",
       "--set model.theta0: flat.npy: holds 18 numbers, but the model has 124439808 parameters"},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    const std::string message = folder.refusal(scenario_text(), {each.text});
    CHECK_MESSAGE(message.find(each.message) == 0, message);
  }
  const Case beside[] = {
      {"batch={sequence: 1025}", "--set batch.sequence: '1025' is longer than the model's 1024 positions"},
      {"numerics={mode: twin, hidden: 30}", "--set numerics: the twin is impossible: heads: 4 do not divide hidden 30"},
      {"numerics={mode: twin, width: 30}", "--set numerics.width: unknown key; known keys: mode, hidden, heads, vocab, sequence"},
      {"numerics=twin", "accepted"},
      {"data={text: gone.txt}", "--set data.text: gone.txt: there is no such file"},
      {"data={text: .}", "--set data.text: .: is a folder"},
      {"data={teacher: {rows: 3}}", "--set data.teacher: unknown key; known keys: language, text"},
      {"data={language: {successors: 65}}", "--set data.language.successors: '65' is out of range"},
  };
  for (const Case& each : beside) {
    INFO(each.text);
    const std::string message = folder.refusal(scenario_text(), {"model=gpt2", each.text});
    CHECK_MESSAGE(message.find(each.message) == 0, message);
  }
  CHECK(folder.refusal(scenario_text(), {"model=gpt2", "numerics={mode: twin, vocab: 200}", "data={text: s.yaml}"})
            .find("--set data.text: a text's bytes are 256 tokens, and the arithmetic has a vocabulary of 200") == 0);
}
