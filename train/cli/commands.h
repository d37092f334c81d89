/* One function a command, each in train/cli/NAME.c; the table is in main.c. */
#ifndef PAWL_CLI_COMMANDS_H
#define PAWL_CLI_COMMANDS_H

int cmd_train(int argc, char **argv);
int cmd_ckpt(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_data_tokenize(int argc, char **argv);
int cmd_data_render(int argc, char **argv);
int cmd_scaling(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
