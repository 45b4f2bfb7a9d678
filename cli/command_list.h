/* command_list.h: the commands, in the order of --help. cmd_<name>.c defines command_<name>. */
COMMAND(train)
COMMAND(plan)
COMMAND(eval)
COMMAND(generate)
COMMAND(inspect)
COMMAND(parity)
COMMAND(bench)
