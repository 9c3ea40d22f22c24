// The part of a scenario that says which schemes run, each with the values of its options.
#pragma once
#include <string>
#include <vector>

#include "app/yaml_reader.h"
#include "core/registry.h"

namespace shardsim {

/// Reads `schemes:`, a list whose items are a name or {name: deepspeed, stage: 3}. Throws ScenarioError, naming file, line and key:
/// an unknown scheme or option, a value that does not fit, options that contradict each other, one scheme listed twice with the
/// same values. Different values make different labels.
std::vector<SchemeChoice> read_schemes(const YamlNode&, const Registry&);

/// The scheme that is called so: by its label, or by its name if it is listed once. Null if there is none.
const SchemeChoice* find_choice(const std::vector<SchemeChoice>&, const std::string& called);

/// "dp, deepspeed-stage3".
std::string labels(const std::vector<SchemeChoice>&);

}  // namespace shardsim
