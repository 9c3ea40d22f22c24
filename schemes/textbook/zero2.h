// zero2: ZeRO-1 that declines to keep gradients it does not own. One flag, no new code. Traffic still 2P.
#pragma once
#include "textbook/zero1.h"

namespace shardsim {

class Zero2 : public Zero1 {
  ShardSet shard() const override { return {Band::opt, Band::grad}; }
};

}  // namespace shardsim
