// SchemePlugin: what a library that the program loads has to offer. CMake's shardsim_add_scheme(... MODULE) writes the function.
#pragma once
#include <memory>
#include <vector>

#include "core/options.h"
#include "core/scheme.h"

namespace shardsim {

/// The first member keeps its place and its type for ever: nothing else is read of a plugin that was built against other headers.
struct SchemePlugin {
  const char* interface;  ///< "shardsim-interface-" and a hash over the headers of core
  const char *name, *summary, *source;
  std::unique_ptr<Scheme> (*make)(const Options&);
  std::vector<Option> (*options)();
};

/// Defined by each plugin.
extern "C" const SchemePlugin* shardsim_scheme_plugin();

}  // namespace shardsim
