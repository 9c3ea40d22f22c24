// Library: a shared library that is looked for when it is first needed, so that the program starts where there is none.
#pragma once
#include <dlfcn.h>

#include <string>

#include "backends/cuda/checked.h"

namespace shardsim::cuda {

class Library {
 public:
  /// Tries the names in their order; the last may be a path. Throws GpuError if none can be loaded.
  template <class... Names>
  explicit Library(const Names&... names) {
    (void)((handle_ = dlopen(names, RTLD_NOW | RTLD_LOCAL)) || ...);
    std::string tried;
    ((tried += tried.empty() ? names : std::string(" or ") + names), ...);
    if (!handle_) throw GpuError(tried + " was not found; add its folder to LD_LIBRARY_PATH");
    name_ = tried;
  }
  /// `function` becomes what the library calls `name`.
  template <class F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (!function) throw GpuError(name_ + " has no " + name + "; a newer one has");
  }

 private:
  void* handle_ = nullptr;  // never closed: its own threads may outlive us
  std::string name_;
};

}  // namespace shardsim::cuda
