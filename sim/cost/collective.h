// Collective prices: the algorithm and protocol that NCCL's tuner would choose, what that costs, and the line through measurements.
// Constants: NVIDIA/nccl, src/graph/tuning.cc (2.27), copied as facts; bandwidths are nccl-tests' "bus" ones, so that a collective
// takes latency + bytes that a rank sends in a ring / bus bandwidth, whichever algorithm runs it.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/stream.h"

namespace shardsim::cost {

/// `pairs`: every member sends to every other by itself, as NCCL's grouped sends do; all-to-alls only.
enum class Algorithm : std::uint8_t { ring, tree, nvls, pairs };
enum class Protocol : std::uint8_t { ll, ll128, simple };
enum class Generation : std::uint8_t { volta, ampere, hopper, blackwell };
const char* name_of(Algorithm);
const char* name_of(Protocol);
/// Nothing for an unknown name; `volta`, `ampere`, ...
std::optional<Generation> generation_of(const std::string& name);

/// What the tuner knows of a group of ranks.
struct Wiring {
  int ranks = 1, nodes = 1;
  bool nvlink = true;  ///< inside a node; false: PCIe, where LL128 is off
  bool nvls = false;   ///< a switch that adds joins all of them: an all-reduce may run in it
  Generation generation = Generation::ampere;
  double ring_bandwidth = 0;   ///< of a large ring collective, bytes per second
  double pairs_bandwidth = 0;  ///< what each member sends, if all send to all others at once
};

/// What was measured of one kind of collective: replaces what the tuner or the platform says.
struct Measured {
  std::optional<double> bus, alpha;  ///< bytes per second; seconds
};

/// A scenario's `collectives`.
struct CollectiveRules {
  std::optional<Algorithm> algorithm;  ///< of all-reduces; the others run in a ring in any case, and all-to-alls in pairs
  std::optional<Protocol> protocol;    ///< not of all-to-alls: sends have Simple
  std::array<Measured, 6> measured;    ///< in the order of the verbs from all_reduce on
  const Measured& of(Verb) const;
  Measured& of(Verb);
};

struct CollectivePrice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double latency = 0, bus_bandwidth = 0;  ///< seconds; bytes per second
  double seconds(Verb, int ranks, double bytes) const;
};

/// The candidate of least latency + bytes / bandwidth among those that the rules allow, with what is measured put in its place.
/// `bytes` are those of the whole buffer. Throws std::invalid_argument that says why none is left. Per-channel caps of the tuner
/// are left out: they do not bind with the number of channels that NCCL gives these machines. 16 channels and Intel hosts are
/// assumed where the tuner asks (a latency factor of all-reduces above 1 KiB per rank on several nodes; the cap of LL on several
/// nodes).
CollectivePrice price(const Wiring&, Verb, double bytes, const CollectiveRules& = {});
/// The price with measured values in place of its own.
CollectivePrice overridden(CollectivePrice, Verb, const CollectiveRules&);
/// "all_gather of 1.049e+06 B over 8 ranks: ring, LL128: 27.3 us (NCCL) + 917504 B / 331.2 GB/s (platform) = 30.07 us"; `origin` is
/// that of a latency which was not measured.
std::string in_words(const CollectivePrice&, Verb, int ranks, double bytes, const CollectiveRules&, const char* origin);

/// One measured collective; bytes of the whole buffer.
struct CollectiveRow {
  Verb verb;
  int ranks;
  double bytes, seconds;
};
/// seconds = alpha + bytes that a rank sends / bus.
struct AlphaBus {
  double alpha = 0, bus = 0;  ///< seconds; bytes per second
  double seconds(Verb, int ranks, double bytes) const;
};
/// Least squares of relative errors; through both, for two rows. Where that would make alpha negative, alpha is 0. Throws
/// std::invalid_argument: no two sizes, a time that is not positive, or larger collectives that take no longer.
AlphaBus fit_alpha_bus(const std::vector<CollectiveRow>&);

}  // namespace shardsim::cost
