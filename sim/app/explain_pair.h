// Explain a pair: the diff between two schemes, in code and in consequences.
#pragma once
#include <string>
#include <vector>

#include "core/registry.h"

namespace shardsim {

/// The classes line by line (- only the first, + only the second), then flags, traffic, resident and peak side by side, as formula
/// and as simulated. With a real system among them: their timelines line by line, and what they hold.
std::string explain_pair(const SchemeChoice& a, const SchemeChoice& b, const Registry&);

/// All lines of both, behind "  ", or "- " and "+ " where only one has it.
std::string line_diff(const std::vector<std::string>&, const std::vector<std::string>&);

/// The text of a scheme's class; where it inherits its step(), with the class that it inherits it from in front.
std::string class_text(const SchemeEntry&, const Registry&);

/// Closed form and simulated, for one, two and four micro-batches: traffic, resident and model-state peak.
std::string consequences(const SchemeChoice&);

}  // namespace shardsim
