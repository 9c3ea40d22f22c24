// GzipStream: a stream buffer in front of zlib.
#include "formats/gzip.h"

#include <zlib.h>

#include <array>
#include <new>

namespace shardsim::formats {

class GzipStream::Buffer final : public std::streambuf {
 public:
  explicit Buffer(std::ostream& to) : to_(to) {
    constexpr int gzip = 16 + MAX_WBITS, memory_level = 8;
    if (deflateInit2(&zip_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip, memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
    setp(in_.data(), in_.data() + in_.size());
  }
  ~Buffer() override {
    pass_on(Z_FINISH);
    deflateEnd(&zip_);
  }

 private:
  int_type overflow(int_type c) override {
    pass_on(Z_NO_FLUSH);
    return c == traits_type::eof() ? traits_type::not_eof(c) : sputc(traits_type::to_char_type(c));
  }
  void pass_on(int flush) {
    zip_.next_in = reinterpret_cast<Bytef*>(pbase());
    zip_.avail_in = uInt(pptr() - pbase());
    do {
      zip_.next_out = reinterpret_cast<Bytef*>(out_.data());
      zip_.avail_out = uInt(out_.size());
      deflate(&zip_, flush);
      to_.write(out_.data(), std::streamsize(out_.size() - zip_.avail_out));
    } while (zip_.avail_out == 0);
    setp(in_.data(), in_.data() + in_.size());
  }

  std::ostream& to_;
  z_stream zip_{};
  std::array<char, 1 << 16> in_, out_;
};

GzipStream::GzipStream(std::ostream& to) : std::ostream(nullptr), buffer_(std::make_unique<Buffer>(to)) { rdbuf(buffer_.get()); }
GzipStream::~GzipStream() = default;

}  // namespace shardsim::formats
