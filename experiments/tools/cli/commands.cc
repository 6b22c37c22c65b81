#include "experiments/tools/cli/commands.h"

namespace ringside::tools::cli {

// Each is defined in a file of its own, command_NAME.cc.
Execute compare_command(CommandOptions& options);
Execute launch_command(CommandOptions& options);  // in command_compare.cc
Execute validate_command(CommandOptions& options);
Execute reproduce_command(CommandOptions& options);
Execute advise_command(CommandOptions& options);
Execute train_command(CommandOptions& options);
Execute report_command(CommandOptions& options);
Execute watch_command(CommandOptions& options);
Execute diff_command(CommandOptions& options);
Execute trace_command(CommandOptions& options);
Execute explain_command(CommandOptions& options);
Execute checkpoint_show_command(CommandOptions& options);  // in command_checkpoint.cc
Execute checkpoint_verify_command(CommandOptions& options);
Execute checkpoint_convert_command(CommandOptions& options);
Execute schedule_show_command(CommandOptions& options);  // in command_schedule.cc
Execute schedule_check_command(CommandOptions& options);
Execute bench_comm_command(CommandOptions& options);
Execute bench_ps_command(CommandOptions& options);
Execute bench_compressors_command(CommandOptions& options);
Execute calibrate_command(CommandOptions& options);
Execute keys_command(CommandOptions& options);
Execute list_command(CommandOptions& options);
Execute plugin_command(CommandOptions& options);
Execute new_scheme_command(CommandOptions& options);
Execute check_scheme_command(CommandOptions& options);
Execute doctor_command(CommandOptions& options);
Execute rank_command(CommandOptions& options);
Execute mpi_launch_shim_command(CommandOptions& options);
Execute on_command(CommandOptions& options);  // in command_mpi_launch_shim.cc
Execute feed_command(CommandOptions& options);
Execute keep_command(CommandOptions& options);

namespace {

constexpr CommandGroup groups[] = {{"checkpoint", "look at the checkpoints of runs"},
                                   {"schedule", "look at schedules of pipelines"},
                                   {"new", "write files to begin with"},
                                   {"bench", "measure a part of the program by itself"}};

constexpr CommandInfo all_commands[] = {
    // runs of experiment files
    {"compare", "", compare_command},
    {"launch", "", launch_command},
    {"validate", "", validate_command},
    {"reproduce", "", reproduce_command},
    {"advise", "", advise_command},
    {"train", "", train_command},
    // results that are there already
    {"report", "", report_command},
    {"watch", "", watch_command},
    {"diff", "", diff_command},
    {"trace", "", trace_command},
    {"explain", "", explain_command},
    {"show", "checkpoint", checkpoint_show_command},
    {"verify", "checkpoint", checkpoint_verify_command},
    {"convert", "checkpoint", checkpoint_convert_command},
    // schemes of your own
    {"scheme", "new", new_scheme_command},
    {"check-scheme", "", check_scheme_command},
    {"plugin", "", plugin_command},
    // schedules of pipelines
    {"show", "schedule", schedule_show_command},
    {"check", "schedule", schedule_check_command},
    // parts of the program by themselves
    {"comm", "bench", bench_comm_command},
    {"ps", "bench", bench_ps_command},
    {"compressors", "bench", bench_compressors_command},
    // this machine and this build
    {"calibrate", "", calibrate_command},
    {"keys", "", keys_command},
    {"list", "", list_command},
    {"doctor", "", doctor_command},
    // commands that other processes start
    {"rank", "", rank_command},
    {"mpi-launch-shim", "", mpi_launch_shim_command},
    {"on", "", on_command},
    {"feed", "", feed_command},
    {"keep", "", keep_command},
};

}  // namespace

std::span<const CommandInfo> commands() { return all_commands; }

std::span<const CommandGroup> command_groups() { return groups; }

}  // namespace ringside::tools::cli
