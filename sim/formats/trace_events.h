// TraceEvents: the events of a Chrome trace as text, one after the other, since a trace may hold millions.
#pragma once
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>

namespace shardsim::formats {

/// Writes events one by one. Times are in seconds or, rounded already, in nanoseconds from the origin on.
class TraceEvents {
 public:
  TraceEvents(std::ostream& out, double origin) : out_(out), origin_(origin) {}

  long long nanoseconds(double seconds) const { return std::llround((seconds - origin_) * 1e9); }

  void metadata(int process, const char* what, int row, const std::string& args) {
    event("M", what, process, row, 0);
    out_ << R"(, "args": {)" << args << "}}";
  }

  /// Rounded at both ends, so that slices which follow one another still do.
  void slice(int process, int row, const std::string& name, const char* category, long long begin_ns, long long end_ns,
             const std::string& args) {
    event("X", name, process, row, begin_ns);
    out_ << R"(, "cat": ")" << category << R"(", "dur": )" << microseconds(end_ns - begin_ns) << R"(, "args": {)" << args << "}}";
  }

  /// An arrow from the slice that begins at `from_ns` in one row to the one that begins at `to_ns` in another.
  void flow(const char* name, const char* category, int from_process, int from_row, long long from_ns, int to_process, int to_row,
            long long to_ns) {
    const std::string rest = R"(, "cat": ")" + std::string(category) + R"(", "id": )" + std::to_string(++flows_);
    event("s", name, from_process, from_row, from_ns);
    out_ << rest << '}';
    event("f", name, to_process, to_row, to_ns);
    out_ << rest << R"(, "bp": "e"})";
  }

  void counter(int process, const char* name, const std::string& args, long long at_ns) {
    event("C", name, process, 0, at_ns);
    out_ << R"(, "args": {)" << args << "}}";
  }

 private:
  void event(const char* phase, const std::string& name, int process, int row, long long at_ns) {
    out_ << (first_ ? "\n" : ",\n") << R"({"ph": ")" << phase << R"(", "name": ")" << name << R"(", "pid": )" << process
         << R"(, "tid": )" << row << R"(, "ts": )" << microseconds(at_ns);
    first_ = false;
  }
  static std::string microseconds(long long ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%lld.%03lld", ns / 1000, ns % 1000);
    return text;
  }

  std::ostream& out_;
  double origin_;
  long long flows_ = 0;
  bool first_ = true;
};

}  // namespace shardsim::formats
