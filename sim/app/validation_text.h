// How a validation is printed: its rows, its statistics, the band to expect, and the table of all shipped ones.
#pragma once
#include <string>
#include <vector>

#include "app/validate.h"

namespace shardsim {

/// Per row: measured, predicted, error, what is flagged, and what the row sets.
std::string rows_text(const Validation&);

/// The head of the lines that summary_line makes: "... n  bias  MAPE  median  p90 ...".
std::string summary_head();
std::string summary_line(const std::string& name, const ErrorSummary&);

/// Groups, all rows, rows without a flag, and what is to be expected of another row like these.
std::string summary_text(const Validation&);

/// All of a validation's figures; `tables` holds one per protocol.
std::string json_text(const std::vector<std::pair<std::string, Validation>>& validations);

}  // namespace shardsim
