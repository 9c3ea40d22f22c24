// The program `shardsim`: its commands and exit codes.
#pragma once
#include "core/registry.h"

namespace shardsim {

/// What main does, with the schemes of `registry`. Returns 0: fine; 1: an expectation was missed; 2: the input is wrong; 3: a
/// scheme's program is illegal; 4: an error of ours; 130: interrupted, with the finished results written.
int run_program(int argc, const char* const* argv, const Registry& registry);

}  // namespace shardsim
