// Explain: what `shardsim explain` and `shardsim list` print.
#pragma once
#include <string>

#include "core/registry.h"

namespace shardsim {

/// A scheme's summary, flags, closed forms, consequences in a trial run, verbs and classes.
std::string explain_scheme(const SchemeEntry&, const Registry&);

std::string list_schemes(const Registry&);
std::string list_models();
std::string list_platforms();  ///< the shipped ones
std::string list_gpus();       ///< the table

}  // namespace shardsim
