// The ledger: peaks and their composition from entries that may come out of order.
#include <doctest/doctest.h>

#include "core/ledger.h"

using namespace shardsim;

TEST_CASE("the peak is the largest sum over time, with what was held then") {
  Ledger ledger;
  ledger.hold({0, 100, Band::param, Verb::bind, 0});
  ledger.hold({1, 50, Band::grad, Verb::backward, 0});
  ledger.hold({2, -50, Band::grad, Verb::backward, 0});
  ledger.hold({3, 30, Band::activation, Verb::forward, 1});
  ledger.fold();
  CHECK(ledger.peak().bytes == 150);
  CHECK(ledger.peak().seconds == 1);
  CHECK(ledger.peak().of(Band::param) == 100);
  CHECK(ledger.peak().of(Band::grad) == 50);
  CHECK(ledger.peak().of(Band::activation) == 0);
  CHECK(ledger.held() == 130);
  CHECK(ledger.held(Band::activation) == 30);
}

TEST_CASE("entries that come out of order are sorted by time; those of one instant keep their order") {
  Ledger ledger;
  ledger.hold({2, -70, Band::gathered, Verb::all_gather, 0});  // a batch of one stream is told late
  ledger.hold({1, 70, Band::gathered, Verb::all_gather, 0});
  ledger.hold({2, 60, Band::gathered, Verb::all_gather, 1});  // freed, then allocated, at one instant: not both at once
  ledger.fold();
  CHECK(ledger.peak().bytes == 70);
  Ledger other;
  other.hold({1, 70, Band::gathered, Verb::all_gather, 0});
  other.hold({2, 60, Band::gathered, Verb::all_gather, 1});
  other.hold({2, -70, Band::gathered, Verb::all_gather, 0});
  other.fold();
  CHECK(other.peak().bytes == 130);
}

TEST_CASE("the model state's peak leaves out activations and workspace, and may be at another instant") {
  Ledger ledger;
  ledger.hold({0, 10, Band::param, Verb::bind, 0});
  ledger.hold({1, 100, Band::activation, Verb::forward, 0});
  ledger.hold({2, -100, Band::activation, Verb::forward, 0});
  ledger.hold({3, 20, Band::bucket, Verb::all_reduce, 0});
  ledger.fold();
  CHECK(ledger.peak().bytes == 110);
  CHECK(ledger.model_state_peak().bytes == 30);
  CHECK(ledger.model_state_peak().seconds == 3);
  CHECK(ledger.model_state_peak().parts.size() == 2);
}

TEST_CASE("a peak survives later folds, and windows without entries change nothing") {
  Ledger ledger(false);
  ledger.hold({0, 40, Band::param, Verb::bind, 0});
  ledger.fold();
  ledger.fold();
  ledger.hold({1, -40, Band::param, Verb::bind, 0});
  ledger.fold();
  CHECK(ledger.peak().bytes == 40);
  CHECK(ledger.held() == 0);
  CHECK(ledger.parts().empty());
  CHECK(ledger.entries().empty());  // kept for recorded ranks only
}

TEST_CASE("ledgers of ranks that hold the same share one list of it") {
  Compositions shared;
  Ledger one(false, &shared), same(false, &shared), more(false, &shared);
  for (Ledger* ledger : {&one, &same, &more}) ledger->hold({0, 100, Band::param, Verb::bind, 0});
  more.hold({0, 10, Band::grad, Verb::bind, 0});
  for (Ledger* ledger : {&one, &more, &same}) ledger->fold();
  CHECK(one.parts().begin() == same.parts().begin());
  CHECK(one.peak().parts.begin() == same.model_state_peak().parts.begin());
  CHECK(more.parts().size() == 2);
  CHECK(more.parts() != one.parts());
}
