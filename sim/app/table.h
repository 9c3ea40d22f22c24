// Table: what a run prints: formula beside simulated, and the reason for every difference.
#pragma once
#include <string>
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

/// The whole printout, at most 100 columns wide. The results and the figures are of the same schemes, in order.
std::string table_text(const Scenario&, const std::vector<SchemeResult>&, const std::vector<formats::Figures>&, bool colour);

// Figures as people read them.
std::string decimal_text(double);  ///< at most 4 decimals, no trailing zeros: "3.75", "16"
std::string bytes_text(double);    ///< "512 B", "1.20 GiB"
std::string time_text(double);     ///< of seconds: "1.234 ms"

}  // namespace shardsim
