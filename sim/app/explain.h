// Explain: what `shardsim explain` and `shardsim list` print.
#pragma once
#include <string>

#include "core/registry.h"

namespace shardsim {

/// A scheme's summary, options, flags, closed forms, consequences in a trial run, verbs and classes.
std::string explain_scheme(const SchemeChoice&, const Registry&);

/// The schemes in "deepspeed --stage 3 zero3": each name is followed by its options. Throws ScenarioError for an unknown scheme,
/// an unknown option and a wrong value.
std::vector<SchemeChoice> schemes_in(const std::vector<std::string>& words, const Registry&);

std::string list_schemes(const Registry&);
std::string list_models();
std::string list_platforms();  ///< the shipped ones
std::string list_gpus();       ///< the table

}  // namespace shardsim
