// The library that really has cudnnCreate.
int cudnnCreate(void **handle);

int cudnnCreate(void **handle) {
  static int object;
  *handle = &object;
  return 42;
}
