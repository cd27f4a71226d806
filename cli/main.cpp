#include "command.h"

int main(int argc, char** argv) { return pare::cli::run_cli(argc, argv); }
