// The program `shardsim` with the schemes that this build contains.
#include "app/program.h"

int main(int argc, char** argv) { return shardsim::run_program(argc, argv, shardsim::built_in_schemes()); }
