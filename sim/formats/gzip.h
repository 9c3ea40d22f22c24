// A file compressed while it is written.
#pragma once
#include <memory>
#include <ostream>

namespace shardsim::formats {

/// What is written here comes out of `to` as gzip, without a name or a time stamp: the same text gives the same bytes. The
/// destructor ends it; errors are those of `to`.
class GzipStream final : public std::ostream {
 public:
  explicit GzipStream(std::ostream& to);
  ~GzipStream() override;

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace shardsim::formats
