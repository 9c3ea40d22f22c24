// Table: what a run prints: formula beside simulated, and the reason for every difference.
#pragma once
#include <string>
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

/// Warnings, and what else there is to say about the run as a whole. A scheme that does not fit is tried with other knobs: this may
/// take seconds. The results and the figures are of the same schemes, in order.
std::vector<std::string> run_notes(const Scenario&, const std::vector<SchemeResult>&, const std::vector<formats::Figures>&);

/// The whole printout, at most 100 columns wide, with the run's notes at its end.
std::string table_text(const Scenario&, const std::vector<SchemeResult>&, const std::vector<formats::Figures>&,
                       const std::vector<std::string>& notes, bool colour);

/// `text` broken at spaces into lines of at most 100 columns; the lines after the first are indented.
std::string wrapped(const std::string& text, std::size_t indent);

// Figures as people read them.
std::string decimal_text(double);  ///< at most 4 decimals, no trailing zeros: "3.75", "16"
std::string precise_text(double);  ///< 12 digits, without the noise of sums in the 16th: "5e-06", "4"
std::string bytes_text(double);    ///< "512 B", "1.20 GiB"
std::string time_text(double);     ///< of seconds: "1.234 ms"
/// By the unit in the figure's name: "step_seconds", "peak_bytes", "traffic"; a dash for what is not there.
std::string figure_text(const std::string& name, double value);
/// "+1.7 %"; "=" for nothing; empty for NaN.
std::string share_text(double share);
/// How much more than `from` it is, as a share of that.
std::string change_text(double value, double from);

}  // namespace shardsim
