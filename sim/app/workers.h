// Workers: tasks spread over processes. SimGrid has one engine per process, and a process with threads should not fork.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace shardsim {

/// Called with how many tasks are done.
using TasksDone = std::function<void(int)>;

/// Calls task(0) ... task(n - 1), each once, in as many processes as the machine has cores, and returns the answers in order. Each
/// process takes the next task that nobody has taken. The first exception of the lowest task is thrown again, as what it was
/// (ScenarioError, IllegalStep, other). When interrupted, what is missing is empty.
std::vector<std::string> in_parallel(int n, const std::function<std::string(int)>& task, const TasksDone& = {});

}  // namespace shardsim
